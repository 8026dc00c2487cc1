"""A real controller, real hosts and a kernel's client in one data folder, and jobs that say in a file that they ran."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.records.cluster import WarmPoolStatus
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import is_final
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_smx.model.records.event import PoolSummary
    from jupyter_smx.model.records.job import Job

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
LOG_WAIT = 0.5
"""Seconds until a log is read again, whatever the controller answers."""
KEPT = 600
"""Seconds; longer than any test."""
VARIABLE = controller_launch.DATA_DIR_VARIABLE
ZYGOTE = "smx-zygote"

_SAY = """\
import os
_file = os.open({ran!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(_file, b"{word}\\n")
os.close(_file)
"""
_WAIT = """\
import time
while not os.path.exists({gate!r}):
    time.sleep(0.002)
"""


def surround(patch: pytest.MonkeyPatch, folder: Path, text: str, data: Path | None = None) -> None:
    """Let controllers that are started from here have this configuration, and ``data`` or ``smx`` as their folder."""
    config = folder / "config"
    config.mkdir()
    (config / "jupyter_smx_config.py").write_text(text)
    choose_folders(patch, folder, data)


def choose_folders(patch: pytest.MonkeyPatch, folder: Path, data: Path | None = None) -> None:
    """Let clients and controllers from here use the folders of a world that has a configuration."""
    patch.setenv("JUPYTER_CONFIG_DIR", os.fspath(folder / "config"))
    patch.setenv("IPYTHONDIR", os.fspath(folder / "ipython"))
    patch.setenv(VARIABLE, os.fspath(data or folder / "smx"))
    patch.setenv("PYTHONPATH", os.fspath(ROOT))


def leads(pid: int) -> bool:
    """Say whether a process is the first of its session."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


class World:
    """One user of one data folder. Everything that it starts is gone after :meth:`close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = controller_launch.data_dir()
        self.client = autostart.client()
        self.gates: list[Path] = []

    # Jobs

    def gate(self) -> Path:
        """Name a file for which a job can wait."""
        self.gates.append(self.folder / f"gate-{len(self.gates)}")
        return self.gates[-1]

    def source(self, body: str = "", *, gate: Path | None = None) -> tuple[str, str]:
        """Write code that says that it ran, waits for its gate, and does ``body``; gives it with its word."""
        word = secrets.token_hex(4)
        text = _SAY.format(ran=os.fspath(self.folder / "ran"), word=word) + 'print("begun", flush=True)\n'
        if gate is not None:
            text += _WAIT.format(gate=os.fspath(gate))
        return text + textwrap.dedent(body) + '\nprint("done", flush=True)\n', word

    def submit(self, body: str = "", *, gate: Path | None = None, **fields: Any) -> Ran:
        """Hand a job in, as a kernel does, and come back with the 201."""
        source, word = self.source(body, gate=gate)
        wish: dict[str, Any] = {"kind": "train", "base_name": "fault", "python": sys.executable, "keep_alive": KEPT}
        record = self.client.submit(secrets.token_hex(16), JobSpec(**({"source": source} | wish | fields)))
        return Ran(self, record, word)

    def run(self, body: str = "", **fields: Any) -> Ran:
        """Run a job that nothing happens to, to its end."""
        ran = self.submit(body, **fields)
        job = ran.wait()
        assert job.state.value == "Completed", job.failure_reason
        return ran

    def warm(self) -> Ran:
        """Make a warm pool with a first job."""
        return self.run()

    # Processes

    def controller(self) -> int:
        """Give the controller's process id; starts one when there is none."""
        return retry_while_unavailable(self.client.controller_info).pid

    def cluster(self) -> str:
        """Give the one live cluster."""
        (pool,) = self.pools()
        return pool.id

    def pools(self) -> tuple[PoolSummary, ...]:
        """List live pools, through a change of controllers."""
        return retry_while_unavailable(self.client.pools)

    def controllers(self) -> list[int]:
        """Find the controllers of this data folder that live now."""
        line = f"{VARIABLE}={self.data}"
        found = process_scan.processes(line)
        return [seen.pid for seen in found if "jupyter_smx.controller" in seen.command and seen.has_variable(line)]

    def until_idle(self) -> World:
        """Wait until all pools are warm and idle: the hosts of a job that ended may not have tidied up yet."""
        eventually_blocking(
            lambda: {pool.state for pool in self.pools()} == {"Available"}, "idle pools", within=PATIENCE
        )
        return self

    def agent(self, cluster: str = "") -> int:
        """Give the one agent of a cluster."""
        ((_, pid),) = process_scan.find_agents(cluster or self.cluster())
        return pid

    def agents(self) -> list[int]:
        """Find all agents whose folder lies in this data folder, without the processes that they fork for slow work."""
        found = process_scan.processes(f"{process_scan.MARK}=")
        return [
            seen.pid
            for seen in found
            if os.fspath(self.data / "clusters") in seen.command and " serve " in seen.command and leads(seen.pid)
        ]

    def zygotes(self, cluster: str = "") -> list[int]:
        """Find the zygotes of a cluster; a job's process has given itself another name."""
        marked = process_scan.cluster_processes(cluster or self.cluster())
        return [seen.pid for seen in marked if comm(seen.pid) == ZYGOTE]

    def clusters_ever(self) -> int:
        """Count the clusters that were ever launched here."""
        return sum(1 for _ in (self.data / "clusters").glob("*"))

    def runs(self, word: str) -> int:
        """Count how often the code with this word began."""
        try:
            return (self.folder / "ran").read_text().split().count(word)
        except FileNotFoundError:
            return 0

    # The end

    def close(self) -> None:
        """Stop and release everything, then end the controller."""
        for gate in self.gates:
            gate.touch()
        if controller_launch.is_listening() or self.agents():
            self.empty()
            os.kill(self.controller(), signal.SIGTERM)
        self.client.close()
        eventually_blocking(lambda: not self.controllers(), "no controller is left", within=PATIENCE)

    def empty(self) -> None:
        """Stop all jobs and release all pools, and wait until none is left; the controller goes on."""
        self.stop_jobs()
        eventually_blocking(self._is_empty, "no job and no pool is left", within=PATIENCE)

    def stop_jobs(self) -> None:
        """Stop all jobs that have not ended."""
        for job in retry_while_unavailable(lambda: self.client.jobs(200)):
            if job.ended_at is None:
                self.client.stop(job.id)

    def _is_empty(self) -> bool:
        for pool in self.pools():
            if pool.state == "Available":
                try:
                    self.client.release(pool.id)
                except SmxError:
                    continue  # it was taken, or ended, in between
        return not self.pools() and all(job.ended_at is not None for job in self.client.jobs(200))


class Ran:
    """One job, and the word that its code writes when it begins."""

    def __init__(self, world: World, record: Job, word: str) -> None:
        self.world = world
        self.id = record.id
        self.name = record.name
        self.first = record
        self.word = word

    def runs(self) -> int:
        """Count how often the code began."""
        return self.world.runs(self.word)

    def job(self) -> Job:
        """Read the record, through a change of controllers."""
        return retry_while_unavailable(lambda: self.world.client.job(self.id))

    def wait(self) -> Job:
        """Wait for the verdict, through a change of controllers."""
        job = retry_while_unavailable(lambda: self.world.client.wait(self.id, PATIENCE))
        assert is_final(job.state), job
        return job

    def until(self, condition: Callable[[Job], object], what: str) -> Job:
        """Wait until the record says something."""
        seen: list[Job] = []

        def is_so() -> object:
            seen[:] = [self.job()]
            return condition(seen[0])

        eventually_blocking(is_so, what, within=PATIENCE)
        return seen[0]

    def process(self) -> int:
        """Find the process that runs it: of those that a zygote of its cluster forked, the one whose log is its own."""
        marked = process_scan.cluster_processes(self.job().cluster)
        (pid,) = [seen.pid for seen in marked if comm(seen.pid) == "smx-job" and _writes_to(seen.pid, self.id)]
        return pid

    def until_it_says(self, text: str) -> None:
        """Wait until the log has ``text``; after each look the controller answers once there is more."""
        eventually_blocking(lambda: self._says(text), f"the log says {text!r}", within=PATIENCE)

    def _says(self, text: str) -> bool:
        read = retry_while_unavailable(lambda: self.world.client.log(self.id, "", 0))
        if text in read.data.decode():
            return True
        retry_while_unavailable(lambda: self.world.client.log(self.id, "", read.offset, LOG_WAIT))
        return False

    def until_it_began(self) -> None:
        """Wait, without the controller, until the code began."""
        eventually_blocking(self.runs, "the code began", within=PATIENCE)

    def log(self) -> str:
        """Read the whole log, through a change of controllers."""
        read = retry_while_unavailable(lambda: self.world.client.log(self.id, "", 0))
        return read.data.decode()

    def why(self) -> str:
        """Give the sentence on warm or cold."""
        why = self.job().why
        return why.sentence if why else ""


def _writes_to(pid: int, job: str) -> bool:
    try:
        return job in os.readlink(f"/proc/{pid}/fd/1")  # noqa: PTH115 - as text
    except OSError:
        return False


def kill(pid: int) -> None:
    """Kill a process and wait until it is dead."""
    process_scan.kill_and_wait(pid)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Let a process do nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def has_lost_its_pool(job: Job) -> bool:
    """Say whether the record of a job says that its pool is gone."""
    return job.warm_pool is not None and job.warm_pool.status is WarmPoolStatus.TERMINATED


def failure(shell: InteractiveShell, cell: str) -> BaseException | None:
    """Run a cell, and give what it raised."""
    done = shell.run_cell(cell)  # type: ignore[no-untyped-call]
    raised: BaseException | None = done.error_in_exec or done.error_before_exec
    return raised


def spec_of(world: World, body: str = "", **fields: Any) -> JobSpec:
    """Make a spec that is good apart from what ``fields`` spoil."""
    source, _ = world.source(body)
    return replace(JobSpec(kind="train", source=source, base_name="fault", python=sys.executable), **fields)


def python_behind(gate: Path, folder: Path) -> str:
    """Make an interpreter whose agents start when the gate is open."""
    script = folder / "python-behind-a-gate"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *" serve "*) while [ ! -e "{gate}" ]; do sleep 0.01; done;; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python process of its own in this data folder."""
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=PATIENCE, check=True
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def comm(pid: int) -> str:
    """Give the name that a process has given itself."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
