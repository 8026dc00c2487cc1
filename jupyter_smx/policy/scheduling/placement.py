"""Place jobs, oldest first: into a warm pool, onto new hosts, or into the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState, ReuseKey
from jupyter_smx.model.results.reports import Difference, Why
from jupyter_smx.model.status import message_of
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy import preload
from jupyter_smx.policy.hosts.agent_messages import isolation_notes
from jupyter_smx.policy.hosts.job_folders import working_folder_notes
from jupyter_smx.policy.hosts.names import helper_notes
from jupyter_smx.policy.lifecycle import keep_alive, transitions
from jupyter_smx.policy.lifecycle.dependencies import FREED
from jupyter_smx.policy.lifecycle.environment import BUILT
from jupyter_smx.policy.scheduling import capacity, reuse
from jupyter_smx.policy.scheduling.capacity import Gpus, assign_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.policy.limits import Limits


_LOST_PREFIX = "Lost before its code began: "


class PlacementSnapshot(Struct, frozen=True, kw_only=True):
    """Input of a placement: live clusters of the engine, those with an open stream, older waiting jobs."""

    clusters: tuple[Cluster, ...] = ()
    others: tuple[Cluster, ...] = ()
    """Live clusters of other engines whose hosts share this machine."""
    reachable: frozenset[str] = frozenset()
    ahead: int = 0
    running: int = 0
    bounded: bool = True
    """True if the engine's hosts share this machine."""
    slots: int | None = None
    """Maximum number of the engine's hosts at once; None without a limit of its own."""
    own_gpus: bool = False
    """True if hosts see only the GPUs that were assigned at their launch."""
    version: str = ""
    """Version of new agents; hosts of other versions get no job."""
    foreign: frozenset[str] = frozenset()
    """Clusters whose agents have another protocol."""


class Reuse(Struct, frozen=True):
    """Take this warm pool; its hosts get these GPUs of the machine."""

    cluster: Cluster
    why: Why
    gpus: Gpus = {}


class Launch(Struct, frozen=True):
    """Acquire new hosts; ``outlived`` are pools that these replace and that no job will use any more."""

    why: Why
    outlived: tuple[str, ...] = ()
    gpus: Gpus = {}


class Join(Struct, frozen=True):
    """Take hosts that are being launched without a job, to continue a pool."""

    cluster: Cluster
    why: Why
    gpus: Gpus = {}


class Wait(Struct, frozen=True):
    """Stay in the queue; ``evict`` names idle pools that must end first to make room."""

    why: Why
    evict: tuple[str, ...] = ()


Placement = Reuse | Join | Launch | Wait


def place(spec: JobSpec, key: ReuseKey, world: PlacementSnapshot, limits: Limits, now: float) -> Placement:
    """Decide for the job at hand; ``world.ahead`` older jobs of the same engine wait before it."""
    need = capacity.demand(spec.instance_groups, limits)
    here = (*world.clusters, *world.others) if world.bounded else world.clusters
    used = capacity.used_share(here, limits)
    missing = _wait_reason(need, used, world, limits)
    if missing:
        return Wait(_queued_reason(missing, world.ahead))
    others = {
        each.id: unlike
        for each in world.clusters
        if (
            unlike := reuse.version_mismatch(each, spec.python_version, world.version, foreign=each.id in world.foreign)
        )
    }
    lent = reuse.gpus_in_use(world.clusters, here) if world.own_gpus else {}
    fitting = [each for each in world.clusters if each.id not in others and each.id not in lent]
    gpus = assign_gpus(spec.instance_groups, here, limits, lasting=world.own_gpus) if world.bounded else {}
    pool = reuse.best_pool(key, fitting, world.reachable, spec.imports, now)
    if pool is not None:
        why = _warm_reason(pool, spec, limits.preload_never, _end_notes(spec, world, limits, pool))
        return Reuse(pool, why, pool.gpus if world.own_gpus else gpus)
    short = reuse.too_short(fitting, spec.max_run)
    coming = reuse.coming_pool(key, [each for each in fitting if each.id not in short], now)
    if coming is not None:
        return Join(coming, _joined_reason(coming, _end_notes(spec, world, limits, coming)))
    notes = capacity.notes(spec.instance_groups, limits) if world.bounded else ()
    notes += _end_notes(spec, world, limits, None)
    missing, evict = _shortage_of_hosts(key.engine, need.hosts, used, world, limits)
    if missing:
        return Wait(_queued_reason(missing, world.ahead), evict)
    return Launch(
        _cold_reason(key, world, notes, lent | others | short),
        tuple(each.id for each in world.clusters if each.id in others and each.key == key),
        gpus,
    )


def wait_after_refusal(job: Job, reason: str, ahead: int, disk: str = "") -> Job:
    """Put a job back into the queue of its engine, which has no hosts for it now; ``ahead`` jobs precede it.

    ``disk`` is what it waits for because of a full or failing disk, as "for free disk space".
    """
    why = add_lost_notes(_queued_reason(f"The engine {job.spec.engine} has no hosts now: {reason}", ahead), job)
    told = transitions.remark(job, f"Its launch waits {disk}." if disk else message_of(job.state))
    return replace(told, cluster="", lease=0, why=why)


def add_note(decision: Placement, note: str) -> Placement:
    """Add a note to the reason of a placement; an empty one changes nothing."""
    if not note:
        return decision
    return replace(decision, why=replace(decision.why, notes=(note, *decision.why.notes)))


def mark_hosts_lost(job: Job, now: float, how: str = "") -> Job:
    """Take a job off hosts on which its code never began, and note in its reason which these were and what is known.

    ``how`` says in a sentence how they were lost, "" if that is unknown.
    """
    said = transitions.remark_of(job)
    # The duration is known for the first placement only: later ones continue the same step.
    time = f" after {format_duration(now - job.transitions[-1].start_time)}" if job.placements == 1 else ""
    trouble = f" ({said.partition(': ')[2].partition('. ')[0].rstrip('.')})" if ": " in said else ""
    pool = job.why.pool if job.why is not None else job.cluster
    note = f"{_LOST_PREFIX}the hosts of pool {pool}{time}{trouble}. {how}".rstrip()
    why = add_lost_notes(Why(start="none", sentence="", notes=(note,)), job)
    again = transitions.remark(job, message_of(job.state))
    return replace(again, cluster="", lease=0, placements=job.placements + 1, warm_pool=None, why=why)


def add_lost_notes(why: Why, job: Job) -> Why:
    """Add the hosts that the job lost before to a start reason."""
    notes = [note for note in job.why.notes if note.startswith(_LOST_PREFIX)] if job.why is not None else []
    return replace(why, notes=(*why.notes, *notes)) if notes else why


def add_queue_time(why: Why, job: Job, now: float) -> Why:
    """Add to the reason of a start for how long the job stood in line, if it did, and which hosts it lost before."""
    why = add_lost_notes(why, job)
    if job.why is None or job.why.start != "queued":
        return why
    begun = [job.timings[moment] for moment in (BUILT, FREED) if moment in job.timings]
    since = max([job.created_at, *begun, *(attempt.ended_at for attempt in job.attempts[-1:])])
    return replace(why, notes=(*why.notes, f"It waited {format_duration(now - since)} in the queue."))


def _wait_reason(need: capacity.Share, used: capacity.Share, world: PlacementSnapshot, limits: Limits) -> str:
    if world.ahead:
        return f"{world.ahead} older job{'s wait' if world.ahead > 1 else ' waits'} before it."
    if limits.max_jobs_running is not None and world.running >= limits.max_jobs_running:
        return f"The administrator allows {limits.max_jobs_running} jobs at a time (max_jobs_running)."
    return capacity.shortage(need, used, limits) if world.bounded else ""


def _shortage_of_hosts(
    engine: str, wanted: int, used: capacity.Share, world: PlacementSnapshot, limits: Limits
) -> tuple[str, tuple[str, ...]]:
    """Return what is missing for so many hosts, "" if nothing is, and which idle pools make room for them."""
    if world.bounded and (missing := capacity.shortage_of_hosts(capacity.Share(hosts=wanted), used, limits)):
        return missing, _pools_to_evict(used.hosts + wanted - limits.max_hosts, world.clusters, world.others)
    taken = sum(_size(cluster) for cluster in world.clusters if cluster.is_live())
    if world.slots is not None and taken + wanted > world.slots:
        need = "1 host" if wanted == 1 else f"{wanted} hosts"
        missing = f"It needs {need}, and {taken} of the {world.slots} of the engine {engine} are in use."
        return missing, _pools_to_evict(taken + wanted - world.slots, world.clusters)
    return "", ()


def _pools_to_evict(over: int, *by_turn: tuple[Cluster, ...]) -> tuple[str, ...]:
    """Choose the idle pools that end soonest anyway, as few as make room; none when that would not be enough.

    Pools that are leaving already make room first, so that looking twice never ends a second pool. Those of other
    engines come last, leaving or not: such an engine may be away, and what leaves there stays as long as it is.
    ``over`` is the number of hosts that are too many; ``by_turn`` has the clusters that may make room for them.
    """
    chosen: list[Cluster] = []
    for clusters in by_turn:
        if over <= 0:
            break
        over -= sum(_size(cluster) for cluster in clusters if cluster.state is ClusterState.RELEASING)
        idle = [cluster for cluster in clusters if cluster.state is ClusterState.AVAILABLE]
        for cluster in sorted(idle, key=lambda c: c.expires_at or 0.0):
            if over <= 0:
                break
            chosen.append(cluster)
            over -= _size(cluster)
    if over > 0:
        return ()
    for cluster in [*chosen]:
        if over + _size(cluster) <= 0:
            chosen.remove(cluster)
            over += _size(cluster)
    return tuple(cluster.id for cluster in chosen)


def _size(cluster: Cluster) -> int:
    return sum(group.instance_count for group in cluster.key.instance_groups)


def _queued_reason(reason: str, ahead: int) -> Why:
    return Why(start="queued", sentence=f"Queued, position {ahead + 1}. {reason}")


def _end_notes(spec: JobSpec, world: PlacementSnapshot, limits: Limits, pool: Cluster | None) -> tuple[str, ...]:
    """Return the submitter's notes, and those about surprises at the end: ends of helpers, fate of the pool."""
    helpers = (*spec.notes, *helper_notes(spec.instance_groups))
    seconds = keep_alive.keep_alive_after(spec.keep_alive, pool)
    if seconds <= 0:
        cause = "no --keep-alive" if spec.keep_alive is None else "--keep-alive 0"
        return (*helpers, f"This job has {cause}, so the pool ends with it.") if pool is not None else helpers
    if pool is not None and spec.keep_alive is None:
        helpers = (*helpers, f"The pool's keep-alive of {format_duration(seconds)} begins again after this job.")
    full = keep_alive.warm_pool_quota_error(spec.instance_groups, (c for c in world.clusters if c is not pool), limits)
    return (*helpers, f"Its hosts will not be kept. {full}") if full else helpers


def _warm_reason(pool: Cluster, spec: JobSpec, never: tuple[str, ...], afterwards: tuple[str, ...]) -> Why:
    after = f" after {pool.last_job}" if pool.last_job else ""
    return Why(
        start="warm",
        sentence=f"Warm: reused pool {pool.name()}{after}.",
        pool=pool.name(),
        reused_from=pool.last_job,
        isolation=pool.hosts[0].isolation if pool.hosts else "",
        notes=(
            *_saved_notes(pool),
            *isolation_notes(pool.hosts),
            *(() if pool.had_root_job else working_folder_notes(spec, pool.hosts)),
            *preload.preload_notes(spec.imports, pool.hosts[0] if pool.hosts else None, never),
            *afterwards,
        ),
    )


def _joined_reason(coming: Cluster, afterwards: tuple[str, ...]) -> Why:
    sentence = f"Cold: the next allocation of its pool, {coming.name()}, has no hosts yet."
    return Why(start="cold", sentence=sentence, pool=coming.name(), notes=afterwards)


def _saved_notes(pool: Cluster) -> tuple[str, ...]:
    """Say what the warm start saves, as the row of the pool adds it up: the launch of its hosts and nothing else."""
    seconds = pool.cold_start_seconds or 0.0
    if seconds < preload.MIN_SECONDS:
        return ()
    return (f"Saved {format_duration(seconds)}: the launch of the pool's hosts took that long.",)


def _cold_reason(
    key: ReuseKey, world: PlacementSnapshot, notes: tuple[str, ...], others: Mapping[str, tuple[Difference, ...]]
) -> Why:
    unlike = reuse.rejection_reasons(key, world.clusters, world.reachable, others)
    if not unlike:
        return Why(start="cold", sentence="Cold: there was no warm pool.", notes=notes)
    # A pool in use is no news where the job could have had hosts that wait already.
    first = min(unlike, key=lambda each: each.field != reuse.TIME_FOR_A_JOB)
    return Why(
        start="cold",
        sentence=f"Cold: pool {first.pool} has {first.field} {first.found}, this job needs {first.wanted}.",
        differences=unlike,
        notes=notes,
    )
