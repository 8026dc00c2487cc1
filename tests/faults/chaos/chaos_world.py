"""One user in the namespaces: jobs that leave marks, calls that are written down, and the end of everything."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chaos_invariants import SLOWEST, Journal, Marks, read_marks
from chaos_namespaces import data_folder

from jupyter_smx import controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.testing import process_scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.records.job import Job, JobSummary

ROOT = Path(__file__).parents[3]
LIMITS = """
c.ControllerApp.grace = 3
c.LocalEngine.grace = 3
c.ControllerApp.unreachable_limit = 15
c.ControllerApp.launch_limit = 40
c.ControllerApp.cpus = 8
c.ControllerApp.max_hosts = 6
c.LocalEngine.apply_limits = False
"""
_MARKED = """\
import os, sys, time
def mark(word):
    file = os.open({marks!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (word + " " + os.environ["TRAINING_JOB_NAME"] + "\\n").encode())
    os.close(file)
mark("began")
{body}
mark("ended")
print("done", flush=True)
"""
PATIENCE = 120.0
"""Seconds after the last fault, or the last end of a job, in which the next job is final."""
_Answer = TypeVar("_Answer")


class ChaosWorld:
    """The data folder on the small disk, the client, the journal."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.journal = Journal()
        self.marks_path = folder / "marks"
        self.data = data_folder(folder) / "smx"
        config = folder / "config"
        config.mkdir()
        (config / "jupyter_smx_config.py").write_text(LIMITS)
        os.environ.update(
            JUPYTER_CONFIG_DIR=os.fspath(config),
            IPYTHONDIR=os.fspath(folder / "ipython"),
            PYTHONPATH=os.fspath(ROOT),
            **{controller_launch.DATA_DIR_VARIABLE: os.fspath(self.data)},
        )
        self.client = autostart.client()

    # Calls

    def call(self, what: str, ask: Callable[[], _Answer]) -> _Answer | None:
        """Ask once and note how long it took; None where the answer is an error."""
        begin = time.monotonic()
        self.journal.calls[what] += 1
        try:
            return ask()
        except SmxError:
            return None
        finally:
            took = time.monotonic() - begin
            if took > SLOWEST:
                self.journal.slow.append(f"{what} took {took:.0f} s")

    def new_id(self) -> str:
        """Make an id of a job; it need not be the same in another run."""
        return secrets.token_hex(16)

    def submit(self, body: str, **fields: Any) -> str:
        """Submit a job with such code between its marks; give its id, "" where it was refused."""
        source = _MARKED.format(marks=os.fspath(self.marks_path), body=body)
        wish: dict[str, Any] = {"kind": "train", "base_name": "chaos", "python": sys.executable}
        job_id = self.new_id()
        return self.note(
            job_id, body, lambda: self.client.submit(job_id, JobSpec(**({"source": source} | wish | fields)))
        )

    def note(self, job_id: str, body: str, ask: Callable[[], Job]) -> str:
        """Write down how a submission was answered."""

        def submit() -> Job:
            try:
                return ask()
            except SmxError as error:
                self.journal.refused[job_id] = str(error)
                raise

        if self.call("submit", submit) is None:
            return ""
        self.journal.accepted[job_id] = body
        return job_id

    # Processes

    def controllers(self) -> list[int]:
        """Find the controllers."""
        return [seen.pid for seen in process_scan.processes() if "jupyter_smx.controller" in seen.command]

    def marked(self, title: str = "") -> list[int]:
        """Find processes of hosts, or those with this name: ``smx-zygote``, ``smx-job``."""
        found = [seen.pid for seen in process_scan.processes() if seen.host()]
        return [pid for pid in found if _comm(pid) == title] if title else found

    def agents(self) -> list[int]:
        """Find the agents of all hosts."""
        return [seen.pid for seen in process_scan.processes() if seen.host() and " serve " in seen.command]

    # The end

    def wait_until_final(self) -> dict[str, Job]:
        """Wait until each job on record is final, or none became so for ``PATIENCE``; gives the jobs by their ids."""
        ended, end = -1, 0.0
        while True:
            rows = self._all_rows()
            now_ended = sum(row.ended_at is not None for row in rows)
            if now_ended > ended:
                ended, end = now_ended, time.monotonic() + PATIENCE
            if ended == len(rows) or time.monotonic() > end:
                return {row.id: retry_while_unavailable(lambda ref=row.id: self.client.job(ref)) for row in rows}
            time.sleep(0.2)

    def _all_rows(self) -> list[JobSummary]:
        rows: list[JobSummary] = []
        while page := self._page_before(rows[-1].id if rows else ""):
            rows += page
        return rows

    def _page_before(self, job_id: str) -> tuple[JobSummary, ...]:
        return retry_while_unavailable(lambda: self.client.jobs(200, before=job_id))

    def log(self, job_id: str) -> str:
        """Read the end of a log."""
        return retry_while_unavailable(lambda: self.client.log(job_id, "", 0)).data.decode(errors="replace")

    def read_marks(self) -> Marks:
        """Read what jobs wrote."""
        return read_marks(self.marks_path.read_text() if self.marks_path.exists() else "")

    def end(self) -> list[str]:
        """Release all pools and end the controller; give the commands of what runs a while later."""
        end = time.monotonic() + PATIENCE
        while pools := retry_while_unavailable(self.client.pools):
            for pool in pools:
                with contextlib.suppress(SmxError):
                    self.client.release(pool.id)
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        for pid in self.controllers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while (left := self._others()) and time.monotonic() < end:
            time.sleep(0.2)
        return left

    def _others(self) -> list[str]:
        own = {1, os.getpid()}
        return [seen.command for seen in process_scan.processes() if seen.pid not in own]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
