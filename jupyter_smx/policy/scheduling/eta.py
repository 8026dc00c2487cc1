"""Estimate when a job ends and when a waiting one starts, from its output and earlier runs of its code."""

from __future__ import annotations

import hashlib
import heapq
import math
from statistics import quantiles
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.results.progress import Expectation
from jupyter_smx.model.status import Status
from jupyter_smx.policy.scheduling import capacity
from jupyter_smx.policy.scheduling.capacity import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.records.cluster import QueueStatus
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import Progress
    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.policy.limits import Limits

RUNS = 20
"""Earlier runs that are looked at, the newest."""
MAX_SPREAD = 3.0
"""Runs with other hyperparameters or inputs are believed when the upper quartile is less than this many lower ones."""
_OVERDUE = 10.0
"""Seconds by which a bar may be late without being called wrong, or half of its estimate, if that is more."""
_EARLY = 0.05
"""Below this fraction the first steps (caches, compilation) weigh too much; earlier runs are better estimates."""


class CompletedRun(Struct, frozen=True, kw_only=True):
    """A completed run: hashes of its code and of its other options, its hosts, seconds from first line to exit."""

    code: str
    wish: str
    instances: str
    seconds: float


def run_of(job: Job) -> CompletedRun | None:
    """Return the run of a completed job; None for any other, whose duration is no estimate."""
    begun, ended = job.timings.get("first_line"), job.timings.get("exited") or job.ended_at
    if job.status() is not Status.COMPLETED or begun is None or ended is None:
        return None
    spec, seconds = job.spec, ended - begun
    if job.ran_seconds is not None and abs(_clock_shift(job)) >= 1:
        # It is unknown which clock each of the two moments is of; the counted seconds depend on neither.
        seconds = job.ran_seconds
    return CompletedRun(
        code=code_hash(spec), wish=parameters_hash(spec), instances=instances_key(spec), seconds=max(0.0, seconds)
    )


def code_hash(spec: JobSpec) -> str:
    """Return the hash of the code: the cell or script and its folder, wherever in a notebook it is."""
    folder = "" if spec.source_dir is None else spec.source_dir.sha256
    program = [spec.image] if spec.image_program else []  # its source is the same text for all images
    return _hash([spec.kind, spec.source.strip(), spec.entry_point, folder, *program])


def parameters_hash(spec: JobSpec) -> str:
    """Return the hash of the code's settings: hyperparameters and inputs."""
    inputs = sorted((channel.name, channel.source) for channel in spec.channels)
    return _hash([sorted(spec.hyperparameters.items()), inputs])


def instances_key(spec: JobSpec) -> str:
    """Return the key of its instances: the engine and the instances."""
    return f"{spec.engine}: {spec.instances()}"


def _hash(parts: list[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


def estimate_end(
    job: Job,
    progress: Progress | None,
    past: Sequence[CompletedRun],
    now: float,
    waiting: QueueStatus | None = None,
) -> Expectation | None:
    """Return when a job will end, in seconds since its submission; None without a reliable estimate.

    The job's own progress counts after ``_EARLY`` of the way, or at once without a history. While its hosts are
    ``waiting`` at their engine, the job begins when the engine expects that.
    """
    until_start = seconds_to_start(waiting, now)
    if until_start is None:
        return None
    begun = job.timings.get("first_line")
    # Readers subtract the time that has passed by the clock, which is never negative.
    passed = max(0.0, now - (job.spec.submitted_at or job.created_at)) + until_start
    ran = 0.0 if begun is None else max(0.0, now - begun - _clock_shift(job))
    own = None if begun is None else _by_progress(progress, now)
    earlier = _by_history(parameters_hash(job.spec), past, ran) if past else None
    if own is not None and (earlier is None or (progress and (progress.fraction or 0.0) >= _EARLY)):
        total = passed + own
        return Expectation(seconds=total, low=total, high=total, basis="progress")
    if earlier is None:
        return None
    low, middle, high, runs = earlier
    before = passed - ran
    return Expectation(seconds=before + middle, low=before + low, high=before + high, basis="history", runs=runs)


def seconds_to_start(waiting: QueueStatus | None, now: float) -> float | None:
    """Return the seconds until hosts that wait at their engine start: 0 if they do not wait, None if it is unknown.

    An estimate of the engine that has passed already counts as unknown.
    """
    if waiting is None:
        return 0.0
    left = None if waiting.expected_start is None else waiting.expected_start - now
    return left if left is not None and left > 0 else None


def _clock_shift(job: Job) -> float:
    """Return the seconds by which the clock was changed since the hosts started to work for a job."""
    began = attempt_started_at(job)
    return 0.0 if began is None or job.counted_from is None else job.counted_from - began


def _by_progress(progress: Progress | None, now: float) -> float | None:
    """Return the remaining seconds by the bar's own estimate, less its age; None if it was wrong."""
    if progress is None or progress.remaining_seconds is None or progress.fraction == 1.0:
        return None
    left = progress.remaining_seconds - max(0.0, now - progress.at)
    return None if left < -max(_OVERDUE, progress.remaining_seconds / 2) else max(0.0, left)


def _by_history(wish: str, past: Sequence[CompletedRun], ran: float) -> tuple[float, float, float, int] | None:
    """Return the quartiles of the earlier runs that took longer than this one until now, and their number."""
    same = [run.seconds for run in past if run.wish == wish]
    seconds = sorted(same or [run.seconds for run in past])
    low, _, high = _quartiles(seconds)
    if not same and (len(seconds) < 2 or high >= MAX_SPREAD * max(low, 1e-9)):  # noqa: PLR2004 - one run has no spread
        return None
    longer = [each for each in seconds if each > ran]
    return (*_quartiles(longer), len(seconds)) if longer else None


def _quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    if len(seconds) == 1:
        return seconds[0], seconds[0], seconds[0]
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return low, middle, high


class Claim(Struct, frozen=True, kw_only=True):
    """A share of the machine that is held, or will be; with its seconds from the begin, None if unknown."""

    share: Share
    seconds: float | None


def estimate_starts(
    held: Iterable[Claim], waiting: Iterable[Claim], limits: Limits, slots: int | None = None
) -> list[float | None]:
    """Return the seconds until each waiting job has capacity, if all jobs end as expected; None if unknown.

    ``held`` are the shares of running jobs with what is left of them, ``waiting`` those of the line, in turn. With
    ``slots`` they are of an engine that can have so many hosts, and nothing of this machine limits them.
    """
    ends: list[tuple[float, int, Share]] = []
    used, now = Share(), 0.0
    for number, claim in enumerate(held):
        used = used.plus(claim.share)
        heapq.heappush(ends, (_or_infinity(claim.seconds), -number, claim.share))
    found: list[float | None] = []
    for number, claim in enumerate(waiting, 1):
        while now < math.inf and not _fits(claim.share, used, len(ends), limits, slots):
            end, _, freed = heapq.heappop(ends) if ends else (math.inf, 0, Share())
            now, used = max(now, end), used.minus(freed)
        found.append(None if math.isinf(now) else now)
        used = used.plus(claim.share)
        heapq.heappush(ends, (now + _or_infinity(claim.seconds), number, claim.share))
    return found


def _fits(need: Share, used: Share, running: int, limits: Limits, slots: int | None) -> bool:
    if limits.max_jobs_running is not None and running >= limits.max_jobs_running:
        return False
    if slots is not None:
        return used.hosts + need.hosts <= slots
    return not (capacity.lacks_hosts(need, used, limits) or capacity.shortage(need, used, limits))


def _or_infinity(seconds: float | None) -> float:
    return math.inf if seconds is None else max(0.0, seconds)
