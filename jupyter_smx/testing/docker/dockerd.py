"""A Docker daemon for tests: an existing one, or a daemon of ours that changes nothing on this machine.

``python -m jupyter_smx.testing.docker.dockerd start`` (``make dockerd``) starts one where none answers,
``stop`` ends it.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

DEFAULT_HOST = "unix:///var/run/docker.sock"
_MAX_PATH = 54
"""Maximum bytes of a folder's path, so that unix sockets below it stay below the limit of 107 for a path."""
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_ROOT = Path(__file__).parents[3]
_PID_FILES = ("dockerd.pid", "exec/containerd/containerd.pid")
_SHUTDOWN_TIMEOUT = 2
"""Seconds that containers get when their daemon ends."""


class Dockerd:
    """A daemon that shares no socket, image, container or file with another one: all lies in one folder.

    One that is ``apart`` has a network of its own as well. The others share the machine's ``docker0``, because even a
    daemon that is configured without a bridge removes that.
    """

    def __init__(self, folder: Path, *options: str, apart: bool = False) -> None:
        self.folder = folder
        self.options = options
        self.apart = apart
        self.host = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Log file of the daemon."""
        return self.folder / "dockerd.log"

    def pid(self, name: str = _PID_FILES[0]) -> int:
        """Return the pid in that file, 0 if it is of no daemon of ours."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / name).read_text())
            if os.fsencode(self.folder) in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        return 0

    def start(self, *, tied: bool = False, within: float = 60.0) -> None:
        """Start it unless it answers already; a ``tied`` one ends when this process does, however that ends.

        :raises RuntimeError: it did not come up; the text has its last lines.
        """
        if is_answering(self.host):
            return
        self._clean_up()
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.folder / "daemon.json").write_text("{}")  # not what this machine's own daemon is configured with
        before = [_program("setpriv"), "--pdeathsig", "TERM"] if tied else []
        before += self._network_command() if self.apart else []
        with self.log.open("wb") as log:
            process = self._process = subprocess.Popen(
                [*before, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": program_path(), "HOME": os.fspath(self.folder)},
                start_new_session=True,
            )
        with contextlib.suppress(AssertionError):
            eventually_blocking(lambda: is_answering(self.host) or process.poll() is not None, within=within)
        if not is_answering(self.host):
            code, words = process.poll(), self.log_tail()
            process.terminate()
            self.stop()
            raise RuntimeError(f"dockerd did not come up ({code}). Its last words in {self.log}: {words}")

    def command(self) -> list[str]:
        """Return the command that starts it."""
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "dockerd.pid", "config-file": "daemon.json"}
        said = [f"--{option}={self.folder / name}" for option, name in places.items()]
        return [
            _program("dockerd"),
            f"--host={self.host}",
            *said,
            f"--shutdown-timeout={_SHUTDOWN_TIMEOUT}",
            *self.options,
        ]

    def log_tail(self) -> str:
        """Return the end of the log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            told = [line for line in lines if "level=info" not in line and "grpc" not in line]
            return " | ".join(told[-3:])
        return ""

    def stop(self) -> None:
        """End it with its containers, and what it mounted; its images stay for the next time."""
        pid = self.pid()
        if pid and not _signal_and_wait(pid, signal.SIGTERM, within=30.0):
            _signal_and_wait(pid, signal.SIGKILL, within=5.0)
        self._clean_up()

    def kill(self) -> None:
        """Kill it as a crash would: there is no clean-up, and its containers run until another one is started."""
        for name in _PID_FILES:
            pid = self.pid(name)
            if pid:
                _signal_and_wait(pid, signal.SIGKILL, within=5.0)

    def remove(self) -> None:
        """End it and remove all that it kept."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _network_command(self) -> list[str]:
        """Return how it gets a network: that of containers which outlived the previous daemon, else a new one."""
        pid = self._surviving_shim()
        return [_program("nsenter"), f"--net=/proc/{pid}/ns/net"] if pid else [_program("unshare"), "--net"]

    def _surviving_shim(self) -> int:
        """Return a process that keeps a container alive without its daemon, 0 where none may or does."""
        if "--live-restore" not in self.options:
            return 0
        mine = os.fspath(self.folder / "exec")
        found = (
            seen.pid for seen in process_scan.processes() if "containerd-shim" in seen.command and mine in seen.command
        )
        return next(found, 0)

    def _clean_up(self) -> None:
        """Remove what a killed daemon left: its mounts, and a pid file whose number may be reused."""
        if self._process is not None:
            self._process.poll()
        if self.pid():
            return
        for name in _PID_FILES:
            (self.folder / name).unlink(missing_ok=True)
        if self._surviving_shim():
            return  # what is mounted is theirs
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
        mounts = [line.split()[4].encode().decode("unicode_escape") for line in lines]
        for mount in reversed([mount for mount in mounts if mount.startswith(f"{self.folder}/")]):
            subprocess.run([_program("umount"), "--lazy", mount], check=False, capture_output=True)


def daemon_folder(root: Path = _ROOT) -> Path:
    """Return the folder of a checkout's own daemon: inside of it, or elsewhere if its path breaks sockets or mounts."""
    inside = root / ".dockerd"
    if len(os.fsencode(inside)) <= _MAX_PATH and _PLAIN.fullmatch(os.fspath(inside)):
        return inside
    return Path("/var/lib", f"jupyter-smx-{hashlib.sha256(os.fsencode(root)).hexdigest()[:10]}")


def is_answering(host: str) -> bool:
    """Return True if a Docker daemon answers on this unix socket."""
    scheme, _, path = host.partition("://")
    if scheme != "unix":
        return False  # the engine takes the daemon of this machine only
    with (
        contextlib.closing(socket.socket(socket.AF_UNIX)) as line,
        contextlib.suppress(OSError, http.client.HTTPException),
    ):
        line.settimeout(5.0)
        line.connect(path)
        line.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
        answer = http.client.HTTPResponse(line)
        answer.begin()
        return answer.status == http.client.OK
    return False


def find_daemon() -> str:
    """Return the URL of a daemon that answers: ``DOCKER_HOST``, the usual socket, or our own; "" if none does."""
    wanted = [os.environ["DOCKER_HOST"]] if os.environ.get("DOCKER_HOST") else [DEFAULT_HOST]
    return next((host for host in [*wanted, Dockerd(daemon_folder()).host] if is_answering(host)), "")


def unavailable_reason() -> str:
    """Return a sentence on why no daemon can be started here, empty if one can."""
    if sys.platform != "linux":
        return "Docker's daemon is started by these tests on Linux only."
    if os.geteuid():
        return "Only root can start Docker's daemon here. Start this machine's own; DOCKER_HOST says where it answers."
    if shutil.which("dockerd", path=program_path()) is None:
        return "There is no dockerd: `make dockerd` installs Debian's docker.io."
    return ""


def program_path() -> str:
    """Return the search path for programs: that of root, which has more folders than most users'."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"


def _program(name: str) -> str:
    return shutil.which(name, path=program_path()) or name


def _signal_and_wait(pid: int, number: signal.Signals, *, within: float) -> bool:
    """Send a signal; return True if the process exits in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        os.kill(pid, number)
        return bool(select.select([descriptor], [], [], within)[0])
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def main(words: list[str]) -> int:
    """Run the command of a make target."""
    own = Dockerd(daemon_folder())
    if words == ["stop"]:
        own.stop()
        return 0
    if words not in (["start"], ["find"]):
        sys.stderr.write("usage: python -m jupyter_smx.testing.docker.dockerd find|start|stop\n")
        return 2
    host = find_daemon()
    if not host and words == ["start"]:
        why = unavailable_reason()
        if why:
            sys.stderr.write(f"{why}\n")
            return 1
        own.start()
        host = own.host
    if host:
        sys.stdout.write(f"export DOCKER_HOST={host}\n")
    return 0 if host else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
