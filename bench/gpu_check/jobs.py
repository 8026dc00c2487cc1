"""Run a job as a user's script does, never longer than its limit, and keep what explains a failure."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jupyter_smx as smx
from bench.gpu_check.sources import printed
from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.kernel.handles.job import Job

KEEP_ALIVE = "10m"
_STOP_LIMIT = 12.0
"""Seconds that a job which was stopped may take to end."""
_TAIL = 3_000
"""Characters of a log that are kept."""
_POLL = 0.05
_HOSTS = 4
"""Hosts, the newest ones, whose logs are kept."""


class CheckError(Exception):
    """A check cannot go on; ``log`` is the end of what the job printed."""

    def __init__(self, sentence: str, log: str = "") -> None:
        super().__init__(sentence)
        self.log = log


class LimitError(BaseException):
    """The time is over. No library catches it: it is no ``Exception``."""


@dataclass
class Ran:
    """A job that has ended: moments are seconds since the epoch, ``seen`` is what its code printed."""

    name: str
    start: str
    why: str
    submitted: float
    known: float
    seen: dict[str, Any]
    timings: dict[str, float]
    log: str = ""
    failure: str = ""
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """End what runs inside after ``seconds``, whatever it waits for.

    :raises LimitError: it did not end before.
    """

    def over(_signal: int, _frame: object) -> None:
        raise LimitError(f"It did not end within {seconds:.0f} s.")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def submit(source: str, name: str, **options: Any) -> Job:
    """Hand a job in and give its handle."""
    job: Any = smx.train(source, **{"name": name, "keep_alive": KEEP_ALIVE, **options})
    return job  # type: ignore[no-any-return]


def wait_for_word(job: Job, word: str, seconds: float) -> dict[str, Any]:
    """Wait until the job has printed a value of that name, and give all that it printed.

    :raises CheckError: it ends without it, or takes longer.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done = job.done()
        seen = printed(job.logs())
        if word in seen:
            return seen
        if done:
            raise failure_of(job)
        time.sleep(_POLL)
    _stop(job)
    raise CheckError(f"{job.name} printed no {word!r} within {seconds:.0f} s.", tail(job))


def finish(job: Job, submitted: float, seconds: float, *, may_fail: bool = False) -> Ran:
    """Wait for the verdict, and give what there is to know.

    :raises CheckError: it fails, or is not done within ``seconds``; then it is stopped.
    """
    try:
        job.wait(seconds)
    except TimeoutError as late:
        _stop(job)
        raise CheckError(f"{job.name} did not end within {seconds:.0f} s ({late}).", tail(job)) from None
    known = time.time()
    record = job.record
    if record.status().value != "Completed" and not may_fail:
        raise failure_of(job)
    log = job.logs()
    why = record.why
    return Ran(
        name=job.name,
        start=why.start if why else "",
        why=job.why,
        submitted=submitted,
        known=known,
        seen=printed(log),
        timings=dict(record.timings),
        log=log[-_TAIL:],
        failure=record.failure_text(),
        notes=list(why.notes) if why else [],
    )


def run(source: str, name: str, seconds: float, *, may_fail: bool = False, **options: Any) -> Ran:
    """Run a job to its end.

    :raises CheckError: as of :func:`finish`.
    """
    submitted = time.time()
    return finish(submit(source, name, **options), submitted, seconds, may_fail=may_fail)


def failure_of(job: Job) -> CheckError:
    """Say why a job failed, with the end of its log."""
    record = job.record
    return CheckError(f"{job.name} is {record.status().value}: {record.failure_text() or 'no reason'}", tail(job))


def tail(job: Job) -> str:
    """Give the end of a job's log, and why it began warm or cold."""
    try:
        return f"{job.why}\n{job.logs()}"[-_TAIL:]
    except Exception as error:  # noqa: BLE001 - border: what explains a failure must not hide it
        return f"(no log: {error})"


def _stop(job: Job) -> None:
    with contextlib.suppress(Exception):
        job.stop()
        job.wait(_STOP_LIMIT)


def preloaded(package: str, seconds: float) -> bool:
    """Wait until an idle pool has imported a package; give whether one has."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        idle = [pool for pool in smx.pools() if pool.idle_since is not None]
        if any(name.partition(".")[0] == package for pool in idle for name in pool.preloaded):
            return True
        time.sleep(_POLL)
    return False


def release_all() -> None:
    """End every pool and wait until it is gone; the caller's limit bounds that."""
    client = session.current_session().client
    while client.pools():
        for pool in client.pools():
            with contextlib.suppress(SmxError):  # it is leaving, or in use for another moment
                client.release(pool.id)
        time.sleep(_POLL)


def log_tails() -> dict[str, str]:
    """Give the ends of the logs of the controller and of its hosts, by their paths in the data folder."""
    found = {}
    top = controller_launch.data_dir()
    agents = sorted(top.glob("clusters/*/*/agent.log"), key=lambda path: path.stat().st_mtime)
    for path in (*agents[-_HOSTS:], controller_launch.log_path()):
        with contextlib.suppress(OSError):
            found[os.fspath(path.relative_to(top))] = path.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    return found


def plain(source: str, seconds: float) -> dict[str, Any]:
    """Run a source in a fresh interpreter without us, and give what it prints, ``submitted`` included.

    :raises CheckError: it fails, or takes longer.
    """
    import subprocess  # noqa: PLC0415 - of this function alone

    submitted = time.time()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise CheckError(f"A fresh interpreter did not end within {seconds:.0f} s.") from None
    if ended.returncode:
        last = next((line for line in reversed(ended.stderr.splitlines()) if line.strip()), "no words")
        raise CheckError(f"A fresh interpreter exits with {ended.returncode}: {last}", ended.stderr[-_TAIL:])
    return {"submitted": submitted, **printed(ended.stdout)}
