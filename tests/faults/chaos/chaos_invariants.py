"""What must hold when the faults are over, decided from what was seen: pure functions that give sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_smx.model.records.job import Job

SLOWEST = 45.0
"""Seconds that a call may take, also where a controller has to be started first."""
STOPPED, COMPLETED, FAILED = "Stopped", "Completed", "Failed"


@dataclass
class Journal:
    """What was asked in one run, and how it was answered."""

    accepted: dict[str, str] = field(default_factory=dict)
    """Ids of jobs whose submission was answered by a job, with what was to run."""
    refused: dict[str, str] = field(default_factory=dict)
    """Ids of jobs whose submission was answered by an error, with the error."""
    stopped: set[str] = field(default_factory=set)
    """Ids of jobs that were to stop, also where that was answered by an error."""
    slow: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Marks:
    """What the code of jobs wrote, outside the disk that faults fill: how often it began and ended, by job name."""

    began: Counter[str]
    ended: Counter[str]


def read_marks(text: str) -> Marks:
    """Read lines of ``began NAME`` and ``ended NAME``."""
    rows = [line.split() for line in text.splitlines()]
    counted = {word: Counter(row[1] for row in rows if len(row) > 1 and row[0] == word) for word in ("began", "ended")}
    return Marks(counted["began"], counted["ended"])


def check_records(journal: Journal, jobs: Mapping[str, Job]) -> list[str]:
    """Check that every accepted job is on record and final."""
    lost = [f"{job_id}: accepted, and not on record" for job_id in journal.accepted if job_id not in jobs]
    return lost + [f"{job.name}: {job.state.value}, and not final" for job in jobs.values() if job.ended_at is None]


def check_verdicts(journal: Journal, jobs: Iterable[Job], marks: Marks, logs: Mapping[str, str]) -> list[str]:
    """Check each verdict against the marks, the log, and what was asked."""
    found = []
    for job in jobs:
        state, began, ended = job.status().value, marks.began[job.name], marks.ended[job.name]
        if began > job.attempt:
            found.append(f"{job.name}: ran {began} times in {job.attempt} attempts")
        if state == COMPLETED and not ended:
            found.append(f"{job.name}: Completed, and its code did not reach its end")
        if state == COMPLETED and not logs.get(job.id, "").endswith("done\n"):
            found.append(f"{job.name}: Completed, and its log lacks the last line")
        if state == FAILED and not job.failure_reason:
            found.append(f"{job.name}: Failed without a reason")
        if state == STOPPED and job.id not in journal.stopped:
            found.append(f"{job.name}: Stopped, and nothing asked for it")
    return found


def check_refusals(journal: Journal, jobs: Mapping[str, Job]) -> list[str]:
    """Check that no submission was answered by an error and accepted all the same."""
    return [
        f"{job_id}: refused ({why[:80]}), and on record" for job_id, why in journal.refused.items() if job_id in jobs
    ]


def check_calls(journal: Journal) -> list[str]:
    """Check that no call took too long."""
    return list(journal.slow)


def check_processes(commands: Sequence[str]) -> list[str]:
    """Check that nothing runs after all pools were released and the controller ended."""
    return [f"still runs: {command[:120]}" for command in commands]
