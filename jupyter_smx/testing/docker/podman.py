"""Podman's compatible socket for tests: a separate one, with images, containers and networks in one folder."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

from jupyter_smx.testing.docker.dockerd import is_answering
from jupyter_smx.testing.eventually import eventually_blocking

_LOCKS = '\n[engine]\nlock_type = "file"\n'
"""In the folder, and not in the machine's memory, where they would stay and be those of the machine's own Podman."""


class Podman:
    """A service of Podman with a network of its own, so that this machine's is left as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/podman.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self, *words: str) -> list[str]:
        places = {"root": "data", "runroot": "run", "network-config-dir": "networks", "tmpdir": "tmp"}
        said = [f"--{option}={self.folder / name}" for option, name in places.items()]
        # crun fails if both versions of control groups are mounted; Docker brings the other runtime.
        runtime = ["--runtime=runc"] if shutil.which("runc") else []
        return ["podman", *said, *runtime, "--cgroup-manager=cgroupfs", "--events-backend=file", *words]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "CONTAINERS_CONF": os.fspath(self.folder / "containers.conf")}

    def start(self) -> None:
        """Start it, until this process ends, however it ends."""
        (self.folder / "containers.conf").write_text(f"{settings()}{_LOCKS}")
        with (self.folder / "log").open("wb") as log:
            service = self._command("system", "service", "--time=0", self.host)
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "unshare", "--net", *service],  # noqa: S607 - this machine's
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,
            )
        eventually_blocking(lambda: is_answering(self.host), "Podman answers", within=30.0)

    def stop(self) -> None:
        """End it with all that it made."""
        remove = self._command("rm", "--all", "--force", "--time=0")
        subprocess.run(remove, check=False, capture_output=True, env=self._environment())
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(30)
        mount = self.folder / "data" / "overlay"
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)  # noqa: S607 - this machine's
        shutil.rmtree(self.folder, ignore_errors=True)


def settings() -> str:
    """Return settings with limits of open files and processes that are allowed here: the defaults may be too high."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], int(Path("/proc/sys/kernel/pid_max").read_text()))
    return f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'


def unavailable_reason() -> str:
    """Return a sentence on why Podman cannot run here, empty if it can."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        return "This needs root and Podman: apt-get install podman netavark aardvark-dns catatonit."
    return ""
