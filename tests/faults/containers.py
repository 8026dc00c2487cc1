"""A world whose hosts are containers: nothing of the test's folder is seen there but what lies in a host's own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from world import PATIENCE, Ran, World

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker

IMAGE = images.PYTHON.name
CONFIG = """\
c.ControllerApp.grace = 0.5
c.DockerEngine.grace = 0.5
c.LocalEngine.grace = 0.5
c.ControllerApp.max_hosts = 24
c.ControllerApp.cpus = 24
c.ControllerApp.memory_gib = 6.0
c.LocalEngine.apply_limits = False
"""
"""Room for many, of which each has 256 MiB."""
MEMORY = 256 << 20

WAIT = """\
import os, time
while not os.path.exists({gate!r}):
    time.sleep(0.05)
"""
"""Not as often as it could: of some that wait it is measured that they only wait."""


class Containers(World):
    """Jobs that wait for a file in ``/tmp`` of their host, which :meth:`open` makes."""

    def __init__(self, folder: Path, docker: Docker) -> None:
        super().__init__(folder)
        self.docker = replace(docker, ours=False)  # of what is there without us, a daemon makes some anew each time
        self._before = self.docker.contents()

    def ask(self, *words: str) -> str:
        """Ask the daemon by Docker's own program."""
        command = ["docker", "-H", self.docker.host, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def source(self, body: str = "", *, gate: Path | None = None) -> tuple[str, str]:
        """Write code that says in its log that it ran, waits for its gate, and does ``body``."""
        wait = WAIT.format(gate=f"/tmp/{gate.name}") if gate else ""  # noqa: S108 - the host's own
        return f'print("begun", flush=True)\n{wait}{textwrap.dedent(body)}\nprint("done", flush=True)\n', ""

    def submit(self, body: str = "", *, gate: Path | None = None, **fields: Any) -> Ran:
        """Hand a job of an image in; others may have another engine."""
        wish = {"python": sys.executable} if fields.get("engine") == "local" else {"image": IMAGE, "python": ""}
        return super().submit(body, gate=gate, **({"engine": "docker", "keep_alive": 0} | wish | fields))

    def open(self, job: Ran, gate: Path) -> None:
        """Let a job go on."""
        (self.host(job) / "tmp" / gate.name).touch()

    def host(self, job: Ran) -> Path:
        """Give the folder of the first host of a job."""
        return self.data / "clusters" / job.job().cluster / "algo-1"

    def container(self, job: Ran) -> str:
        """Name the container of the first host of a job."""
        return f"jupyter-smx-{job.job().cluster}-algo-1"

    def alive(self) -> list[str]:
        """List the containers of this world that live."""
        clusters = {path.name for path in (self.data / "clusters").iterdir()}
        rows = self.docker.client.api.containers()
        return [row["Id"] for row in rows if row["Labels"].get("jupyter-smx.cluster") in clusters]

    def nothing_is_left(self) -> None:
        """See that no pool, container, network, process or folder of a host is there when all was let go."""
        eventually_blocking(lambda: not self.pools(), "no pool is left", within=PATIENCE)
        eventually_blocking(lambda: not self._left(), "nothing of a host is left")
        found = {key: what for key, what in self.docker.contents().items() if key not in self._before}
        assert not found, found

    def _left(self) -> list[str]:
        folders = [path for path in (self.data / "clusters").iterdir() if path.is_dir()]
        left = [seen.command for path in folders for seen in process_scan.cluster_processes(path.name)]
        costly = [path for name in ("ml", "tmp", "given") for path in self.data.glob(f"clusters/*/*/{name}/**/*")]
        return left + [str(path) for path in costly if path.is_file()]


def said(ran: Ran) -> str:
    """Give what a user reads of a job that is under way."""
    return ran.job().transitions[-1].status_message
