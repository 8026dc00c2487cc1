"""Decide what follows for the allocation of a cluster: from its record, what Slurm lists, and the time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.slurm import reasons
from jupyter_smx.engines.slurm.parsers import QueueRow
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError
from jupyter_smx.model.records.cluster import QueueStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.slurm.record import AllocationRecord

    Jobs = Mapping[str, list[QueueRow]]
    """Rows of jobs of one name, by the job's id."""

LATE_SUBMISSION = 15.0
"""Seconds for which a submission without an answer may still arrive after Slurm has answered again."""
COMPLETING_LIMIT = 60.0
"""Seconds after the end of a job in which Slurm may still end its processes, and nothing is concluded."""


class SubmitJob(Struct, frozen=True):
    """Submit the next job: there is none, and none can come any more."""


class AdoptJob(Struct, frozen=True):
    """Record the id of a job that an earlier submission made; cancel the later ones of its name."""

    job: str
    cancel: tuple[str, ...] = ()


class ReportWait(Struct, frozen=True):
    """Report the state, and ask again later."""

    status: QueueStatus


class LaunchHosts(Struct, frozen=True):
    """Launch the hosts on the nodes of these components."""

    rows: tuple[QueueRow, ...]


class RefuseJob(Struct, frozen=True):
    """Cancel the job, which waits for what cannot come, and those of other groups; raise the error."""

    error: SmxError
    job: str


class FailLaunch(Struct, frozen=True):
    """The job has ended; raise how, which ``job`` tells."""

    job: str
    state: str


Step = SubmitJob | AdoptJob | ReportWait | LaunchHosts | RefuseJob | FailLaunch


def next_step(record: AllocationRecord, jobs: Jobs, now: float, node_counts: Mapping[str, int]) -> Step:
    """Decide the next step of a launch.

    ``jobs`` are those of the cluster's name by Slurm's present answer, ``now`` is seconds since the epoch, and
    ``node_counts`` has the number of nodes of each partition, as far as it is known.
    """
    if not record.is_submitted():
        return _without_job(record, jobs, now)
    for job in record.job_ids():
        # Jobs of groups end apart, so one that has ended counts more than another one that waits.
        found = jobs.get(job, [])
        if not found or (record.job_per_group and is_ended(found)):
            return FailLaunch(job, found[0].state if found else "")
    rows = [row for job in record.job_ids() for row in jobs[job]]
    if any(is_pending(row) for row in rows):
        return _pending(record, rows, now, node_counts)
    if all(row.state in reasons.RUNNING for row in rows) and all(row.nodes for row in rows):
        return LaunchHosts(tuple(rows))
    ended = [row for row in rows if row.state not in reasons.RUNNING]
    return (
        FailLaunch(ended[0].job, ended[0].state) if ended else ReportWait(QueueStatus(reasons.format_reason(rows[0])))
    )


def _without_job(record: AllocationRecord, jobs: Jobs, now: float) -> Step:
    mine = {job: [row for row in rows if record.next_group() in (None, row.component)] for job, rows in jobs.items()}
    live = [job for job, rows in mine.items() if any(is_pending(row) or row.state in reasons.RUNNING for row in rows)]
    if live:
        first, *others = sorted(live, key=int)
        return AdoptJob(first, tuple(others))
    if not record.has_begun() or now - (record.missed_since or now) >= LATE_SUBMISSION:
        return SubmitJob()
    return ReportWait(QueueStatus("Slurm gave no answer to the submission, so it is looked up by name"))


def is_pending(row: QueueRow) -> bool:
    """Return True if a job waits for its nodes."""
    return row.state in reasons.PENDING


def _pending(record: AllocationRecord, rows: Sequence[QueueRow], now: float, node_counts: Mapping[str, int]) -> Step:
    waiting = [row for row in rows if is_pending(row)]
    for row in waiting if record.job_per_group else rows:
        hosts = sum(component == row.component for component in record.components.values())
        too_many = hosts > node_counts.get(row.partition, hosts)
        if (too_many and reasons.NODE_LIMIT.fullmatch(row.reason)) or not reasons.can_pass(row.reason):
            return RefuseJob(reasons.never_error(row.reason, row.job, has_too_many_hosts=too_many), row.job)
    if record.job_per_group:
        said = reasons.format_jobs_of_groups(waiting, [row for row in rows if row not in waiting], now)
    else:
        said = reasons.format_reason(next((row for row in rows if row.reason), rows[0]))
    starts = [row.start for row in rows if row.start is not None]
    return ReportWait(QueueStatus(said, expected_start=max(starts, default=None)))


def observe(
    record: AllocationRecord | None, ids: Sequence[str], jobs: Jobs, now: float, *, has_hosts: bool
) -> Observation:
    """Conclude the state of a cluster from Slurm's present answer: with one of its jobs, all hosts are gone.

    ``ids`` are those of its jobs by the record or the handle, none while there are none. A job that waits again after
    it had hosts was queued again by Slurm: they ended.
    """
    if not ids:
        return Observation.GONE if record is None else Observation.UNKNOWN  # an acquire may be under way
    rows = [row for job in ids for row in jobs.get(job, [])]
    states = [row.state for row in rows]
    if not all(jobs.get(job) for job in ids) or any(
        _is_over(row, now) or (has_hosts and is_pending(row)) for row in rows
    ):
        return Observation.GONE
    if has_hosts and all(state in reasons.RUNNING for state in states):
        return Observation.RUNNING
    return Observation.UNKNOWN


def _is_over(row: QueueRow, now: float) -> bool:
    if row.state in reasons.COMPLETING:
        return row.end is not None and now - row.end > COMPLETING_LIMIT
    return not is_pending(row) and row.state not in reasons.RUNNING


def is_ended(rows: Sequence[QueueRow]) -> bool:
    """Return True if no process of a job is left: each component has ended, and none is completing."""
    live = (*reasons.PENDING, *reasons.RUNNING, *reasons.COMPLETING)
    return all(row.state not in live for row in rows)


def end_error(job: str, state: str, details: dict[str, str]) -> SmxError:
    """Return the error of a launch whose job ended before its hosts were ready: a refusal if a person must act."""
    known = reasons.pilot_end(details)
    if known is not None and known.cure:
        return RefusedError(
            f"Slurm job {job} ended before its hosts were ready. {known.sentence}",
            field="engine",
            value="slurm",
            rule="An agent needs Python 3.8 or newer on each node, and a folder of its own.",
            cure=known.cure,
        )
    return UnavailableError(
        f"Slurm job {job} ended before its hosts were ready. {reasons.end_sentence(state, details)}", transient=True
    )
