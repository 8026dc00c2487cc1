"""Handles events of clusters, agents and preparations: updates the runtime and record of a job, and reconciles it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError, UnexpectedError, disk_wait, log_and_continue, wrap_unexpected
from jupyter_smx.controller.scheduling.finalize import MAX_UNEXPECTED_ERRORS
from jupyter_smx.engines.base import ImageMissingError, RequirementsError
from jupyter_smx.model.errors import SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import DISK_WAIT, TERMINAL_GOALS, SecondaryStatus, message_of
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.agent_messages import isolation_notes
from jupyter_smx.policy.hosts.job_folders import missing_folder_notes, working_folder_notes
from jupyter_smx.policy.lifecycle import (
    abandonment,
    attempts,
    image_pull,
    launch,
    renewal,
    spot,
    transitions,
    unreachable_hosts,
)
from jupyter_smx.policy.scheduling import placement, reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.finalize import JobFinalizer
    from jupyter_smx.controller.scheduling.task_set import TaskSet
    from jupyter_smx.controller.state.job_runtime import JobRuntime, JobRuntimes
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.controller.telemetry.log_collector import LogCollector
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)

MAX_REFUSALS = 3
"""Launches of one job that may fail."""
MAX_ROOM_PAUSE = 30.0
"""Seconds until an engine that had no room is asked again, at most."""
_UNREADABLE_REMARK = "Its hosts are gone, and their files cannot be read now: "
SPOOL_RETRY_DELAY = 5.0
"""Seconds until an engine is asked again what lost hosts kept."""
RETRY_DELAY = 1.0
"""Seconds until an agent that did not answer is asked again."""


@dataclass(frozen=True)
class ReconcilerCallbacks:
    """Callbacks for events; the ``JobReconciler`` provides them."""

    reconcile: Callable[[str], None]
    """Does the next step of a job."""
    schedule: Callable[[], None]
    """Places jobs that wait for hosts."""
    on_fenced: Callable[[], None]
    """Ends this controller, because another one owns the records."""


class JobEventHandler:
    """Handles greetings, first lines, ends, refusals and losses; the next step is decided by the reconciler."""

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        log_collector: LogCollector,
        finalizer: JobFinalizer,
        runtimes: JobRuntimes,
        tasks: TaskSet,
        callbacks: ReconcilerCallbacks,
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._log_collector = log_collector
        self._finalizer = finalizer
        self._runtimes = runtimes
        self._tasks = tasks
        self._reconcile = callbacks.reconcile
        self._schedule = callbacks.schedule
        self._on_fenced = callbacks.on_fenced
        # Called with each sample of what a job uses: job, host, bytes of samples there, newest figures.
        self.on_sample: Callable[[Job, str, int, Mapping[str, Any]], None] = lambda *_news: None

    def on_fenced(self) -> None:
        """End this controller: another one owns the records."""
        self._on_fenced()

    def on_hosts_freed(self) -> None:
        """Schedule the jobs that wait for hosts."""
        self._schedule()

    def on_files_provided(self, job_id: str) -> None:
        """Do the next step of a job when its hosts have the files, or this controller the key, that it needs."""
        self._reconcile(job_id)

    def on_cluster_ready(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Adopt the state of the agents: jobs that run or ended, and how long an idle pool has left."""
        self._live_state.set_unreachable(cluster.id, "")
        job = self._live_state.jobs.get(cluster.job)
        if job is not None:
            job = self._note_isolation(self._clear_unreachable_remark(job), cluster)
        self.note_greetings(cluster, greetings)
        for host, said in greetings.items():
            for known, facts in said.get("jobs", {}).items():
                if job is not None and known == job.id:
                    self._adopt(job, host, facts)
                elif known not in self._live_state.jobs:
                    self._agents.stream(cluster.id, host).forget(job=known, lease=facts.get("lease", 0))
        if cluster.state is ClusterState.AVAILABLE:
            self._finalizer.adopt_deadline(cluster, greetings)
            self._schedule()
        if job is not None:
            self._reconcile(job.id)

    def note_greetings(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Record which hosts are closed, and which never got the job of their cluster."""
        job = self._live_state.jobs.get(cluster.job)
        if job is None or job.cluster != cluster.id:
            return
        runtime = self._runtimes.get(job)
        for host, said in greetings.items():
            runtime.hosts_closed |= bool(said.get("closed"))
            # Data on an older stream is lost, because the agent closed it; on this one it may be on its way.
            if job.id not in said.get("jobs", {}) and host not in runtime.dispatched_hosts:
                runtime.unreached_hosts.add(host)

    def _note_isolation(self, job: Job, cluster: Cluster) -> Job:
        """Add the agents' reports of their hosts to the reason of the job's start, which was recorded before."""
        if job.why is None:
            return job
        # A warm pool is the same as for the job before, so one note for each pool is enough.
        own: tuple[str, ...] = ()
        if job.why.start == "cold":
            own = (*missing_folder_notes(cluster.hosts), *working_folder_notes(job.spec, cluster.hosts))
        notes = tuple(dict.fromkeys([*job.why.notes, *isolation_notes(cluster.hosts), *own]))
        why = replace(job.why, notes=notes, isolation=cluster.hosts[0].isolation if cluster.hosts else "")
        if why == job.why:
            return job
        told = replace(job, why=why)
        self._live_state.save(jobs=[told])
        return told

    def _adopt(self, job: Job, host: str, facts: Mapping[str, Any]) -> None:
        job = self._live_state.jobs.get(job.id, job)  # another host's facts may have moved it on
        runtime = self._runtimes.get(job)
        runtime.dispatched_hosts.add(host)
        self._log_collector.on_growth(job, host, int(facts.get("log", 0)))
        self.on_sample(job, host, int(facts.get("samples", 0)), {})
        if facts.get("phase") == "staging":
            self.mark_downloading(job)
        at = facts.get("at", {})
        if at.get("exited") is not None:
            runtime.exited_hosts.add(host)  # no controller saw it; the records show the goal of that moment
        if at.get("first_line") is not None and "first_line" not in job.timings:
            # No controller was connected when the code began.
            self.record_first_line(job, {name: moment for name, moment in at.items() if moment is not None})
        if facts.get("phase") == "ended":
            self._read_record(job, host)

    def _read_record(self, job: Job, host: str) -> None:
        """Begin to read a record where it lies, unless that is under way; a long one takes a while."""
        runtime = self._runtimes.get(job)
        if host not in runtime.fetching_hosts:
            runtime.fetching_hosts.add(host)
            self._tasks.start(self._fetch_record(job, host, runtime), f"record {job.id} {host}")

    async def _fetch_record(self, job: Job, host: str, runtime: JobRuntime) -> None:
        try:
            record = await self._fetch_record_with_retry(job, host)
        finally:
            runtime.fetching_hosts.discard(host)
        now = self._live_state.jobs.get(job.id)
        # Meanwhile the job may have lost these hosts, and begun again on others of the same names.
        if record is not None and now is not None and (now.cluster, now.lease) == (job.cluster, job.lease):
            self._host_ended(job.id, host, record)

    async def _fetch_record_with_retry(self, job: Job, host: str) -> dict[str, Any] | None:
        record = None
        # If the stream broke, the next reply to ``hello`` shows again that it exists.
        while record is None and job.id in self._live_state.jobs and self._agents.is_open(job.cluster):
            record = await self._try_record(job, host)
        return record

    async def _try_record(self, job: Job, host: str) -> dict[str, Any] | None:
        try:
            return await self._finalizer.fetch_record(job, host)
        except UnavailableError as error:
            _log.warning("job=%s host=%s reading the end record failed, will be retried: %s", job.name, host, error)
        await asyncio.sleep(RETRY_DELAY)
        return None

    def on_cluster_refused(self, cluster: Cluster, error: SmxError, *, again: bool = True) -> None:
        """Try again where there was no room, and a few times after a launch that failed; otherwise the job failed."""
        job = self._live_state.jobs.get(cluster.job)
        if job is None:
            if renewal.is_without_job(cluster) and not error.transient:
                pool = self._live_state.clusters.get(cluster.renewal_of)
                self._live_state.save(clusters=renewal.not_renewed(pool, cluster, str(error)))
            return
        if launch.is_no_room(error) and not isinstance(error, ImageMissingError) and job.goal not in TERMINAL_GOALS:
            self._wait_for_room(job, error)
            return
        runtime = self._runtimes.get(job)
        runtime.refusals += 1
        waits = replace(job, cluster="", lease=0) if error.transient else None
        if isinstance(error, ImageMissingError) and job.image is not None:
            waits, error = (
                image_pull.mark_image_missing(job, self._live_state.clock()),
                image_pull.image_missing_error(job.image),
            )
        if again and waits is not None and runtime.refusals < MAX_REFUSALS and job.goal not in TERMINAL_GOALS:
            runtime.not_before = self._live_state.monotonic() + 0.5 * 2**runtime.refusals
            runtime.hosts = ()
            self._live_state.save(jobs=[waits])
            return
        if job.goal in TERMINAL_GOALS:
            self._finalizer.stop_unstarted(replace(job, cluster="", lease=0))
        elif isinstance(error, RequirementsError):
            self.on_environment_failed([job, *self._jobs_of_environment(cluster)], error)
            return
        else:
            self._finalizer.fail_unstarted([job], _reason(error))
        self._runtimes.drop(job.id)
        self._schedule()

    def _jobs_of_environment(self, cluster: Cluster) -> list[Job]:
        """Return the queued jobs with the environment of a cluster: a failed build is not repeated for each."""
        queued = (job for job in self._live_state.jobs.values() if not job.cluster and job.goal not in TERMINAL_GOALS)
        same = [job for job in queued if reuse.key_of_job(job, cluster.key.user) == cluster.key]
        return [job for job in same if self._live_state.job_queue.dependency_status(job).is_satisfied()]

    def _wait_for_room(self, job: Job, error: SmxError) -> None:
        runtime = self._runtimes.get(job)
        if not runtime.can_wait_for_disk(error, self._live_state.monotonic()):
            self._finalizer.fail_unstarted([job], f"{attempts.INTERNAL_ERROR}: {error}")
            self._runtimes.drop(job.id)
            self._schedule()
            return
        runtime.waits_for_room += 1
        pause = min(MAX_ROOM_PAUSE, 0.5 * 2 ** min(runtime.waits_for_room, 10))
        runtime.no_launch_before = self._live_state.monotonic() + pause
        runtime.hosts = ()
        with self._live_state.job_queue.preview([replace(job, cluster="")]):
            ahead = self._live_state.job_queue.ahead_of(job)
        self._live_state.save(jobs=[placement.wait_after_refusal(job, str(error), ahead, disk_wait(error))])
        self._schedule()

    def on_environment_ready(self) -> None:
        """Schedule the jobs that waited for the environment or the image."""
        self._schedule()

    def on_environment_failed(self, jobs: Sequence[Job], error: SmxError) -> None:
        """End jobs whose requirements cannot be installed."""
        # The message of sagemaker-training if pip fails.
        pip = f"AlgorithmError: InstallRequirementsError: {error}"
        self._finalizer.fail_unstarted(jobs, _reason(error) if isinstance(error, UnexpectedError) else pip)
        for job in jobs:
            self._runtimes.drop(job.id)
        self._schedule()

    def on_image_refused(self, refusals: Sequence[tuple[SmxError, Sequence[Job]]]) -> None:
        """End jobs of whose image no hosts can be made, or whose code that image cannot run, by their errors."""
        for error, jobs in refusals:
            self._finalizer.fail_unstarted(jobs, _reason(error))
            for job in jobs:
                self._runtimes.drop(job.id)
        self._schedule()

    def on_host_refused(self, job: Job, host: str, reason: str) -> None:
        """End a job on a host that would refuse it again."""
        self._host_ended(job.id, host, {"cause": "refused", "failure": reason})

    def on_host_failed(self, job: Job, host: str, reason: str) -> None:
        """End a job on a host after an internal error."""
        self._host_ended(job.id, host, {"cause": "host", "failure": reason})

    def on_cluster_unreachable(self, cluster: Cluster, error: SmxError, since: float) -> None:
        """Record on a pool and its job why the hosts are unreachable, and what to do; removed when they answer.

        ``since`` is the time of the first failure, in seconds since the epoch.
        """
        reason, now = f"{error.message} {error.cure}".strip(), self._live_state.clock()
        self._live_state.set_unreachable(cluster.id, unreachable_hosts.format_unreachable(reason, since, now))
        job = self._live_state.jobs.get(cluster.job)
        if job is None or job.cluster != cluster.id:
            return
        if not unreachable_hosts.is_noted(job):
            self._runtimes.get(job).last_remark = transitions.remark_of(job)
        told = unreachable_hosts.note_unreachable(job, reason, since, now)
        if told is not job:
            self._live_state.save(jobs=[told])

    def on_cluster_reachable(self, cluster: Cluster) -> None:
        """Remove the records of :meth:`on_cluster_unreachable`: hosts that were silent answer."""
        self._live_state.set_unreachable(cluster.id, "")
        job = self._live_state.jobs.get(cluster.job)
        if job is not None and job.cluster == cluster.id:
            self._clear_unreachable_remark(job)

    def _clear_unreachable_remark(self, job: Job) -> Job:
        if not unreachable_hosts.is_noted(job):
            return job
        told = unreachable_hosts.note_reachable(job, self._runtimes.get(job).last_remark)
        self._live_state.save(jobs=[told])
        return told

    async def on_cluster_lost(self, cluster: Cluster) -> None:
        """Read what the hosts left on disk; then the job ends by that, or begins on other hosts."""
        job = next((each for each in self._live_state.jobs.values() if each.cluster == cluster.id), None)
        if job is None or self._runtimes.get(job).is_reading_spool:
            return
        runtime = self._runtimes.get(job)
        runtime.is_reading_spool = True
        try:
            await self._read_spools(job, cluster, runtime)
        except UnavailableError as error:
            if self._waits_for_spool(job.id, runtime, error):
                return
        finally:
            runtime.is_reading_spool = False
        live = self._live_state.clusters.get(cluster.id)
        if live is not None and live.hosts:
            self._note_release_pending(self._live_state.jobs.get(job.id, job), runtime)
        runtime.hosts_lost = True
        self._reconcile(job.id)

    def _note_release_pending(self, job: Job, runtime: JobRuntime) -> None:
        """Record that hosts are abandoned before their release is confirmed: the job may still begin there."""
        runtime.is_release_pending = True
        runtime.code_started |= not runtime.unreached_hosts.issuperset(runtime.hosts)
        if job.goal not in TERMINAL_GOALS:
            for host in runtime.hosts:
                runtime.exit_reasons[host] = f"{abandonment.OVER_TIME}."

    def _waits_for_spool(self, job_id: str, runtime: JobRuntime, error: UnavailableError) -> bool:
        """Try again later where the engine cannot read now what lost hosts kept; False where the job need not wait."""
        job = self._live_state.jobs.get(job_id)
        if job is None:
            return True
        can_wait = self._can_wait_for_spool(job) and runtime.can_wait_for_disk(error, self._live_state.monotonic())
        if not can_wait:
            runtime.code_started = runtime.is_spool_given_up = True  # the code may have begun
            return False
        _log.warning("job=%s reading results of lost hosts failed, will be retried: %s", job.name, error)
        runtime.not_before = self._live_state.monotonic() + SPOOL_RETRY_DELAY
        told = transitions.remark(job, f"{_UNREADABLE_REMARK}{error.message} {error.cure}".strip())
        if told is not job:
            self._live_state.save(jobs=[told])
        return True

    def _can_wait_for_spool(self, job: Job) -> bool:
        """Return True if results may still be worth waiting for: hosts are gone for certain, but not for long."""
        ended = self._live_state.store.cluster(job.cluster)
        if job.goal in TERMINAL_GOALS or ended is None or ended.ended_at is None:
            return False
        return self._live_state.clock() < ended.ended_at + self._live_state.limits.keep_uncollected

    async def _read_spools(self, job: Job, cluster: Cluster, runtime: JobRuntime) -> None:
        # Code may delete its own log, but not the record of its first line.
        runtime.code_started |= "first_line" in job.timings or runtime.first_line_moments is not None
        # Hosts that never came up are not in the record of their cluster, and got no job.
        for host in runtime.hosts if cluster.hosts else ():
            if host not in runtime.records and host not in runtime.unreached_hosts:
                ran, record = await self._finalizer.read_spool(job, host)
                runtime.code_started |= ran
                if record is None:
                    runtime.exit_reasons[host] = await self._finalizer.host_exit_reason(job, host)
                else:
                    runtime.records[host] = record

    async def process_loss(self, job: Job, cluster: Cluster) -> None:
        """Handle a loss of hosts that is on record, while its consequences for the job are not."""
        try:
            with log_and_continue(_log, "job={} reading results of lost hosts failed", job.name):
                await self._process_loss_or_delay(job, cluster)
        except FencedError:
            self._on_fenced()
            raise

    async def _process_loss_or_delay(self, job: Job, cluster: Cluster) -> None:
        try:
            with wrap_unexpected(_log, f"Reading results from lost hosts of {job.name}"):
                await self.on_cluster_lost(cluster)
        except UnexpectedError:
            runtime = self._runtimes.get(job)
            if runtime.record_error(self._live_state.monotonic()) >= MAX_UNEXPECTED_ERRORS:
                # Its end is brought without what they left, and code that may have begun is never begun again.
                runtime.code_started = runtime.hosts_lost = True
            raise

    def on_agent_event(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        """Take one event frame of an agent; frames of another lease are stale and dropped."""
        try:
            said = agent_messages.parse_event(header)
        except agent_messages.MalformedMessageError as error:
            _log.warning("host=%s cluster=%s invalid event dropped: %s", host, cluster_id, error)
            return
        try:
            self._live_state.detect_clock_change()
            self._take_event(cluster_id, host, said)
        except FencedError:
            self._on_fenced()
        except SmxError as error:
            # For example a full disk; the important part is in the runtime, and recorded when there is space.
            _log.warning("host=%s cluster=%s event was not recorded: %s", host, cluster_id, error)

    def _take_event(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        event = header.get("event")
        if event == "preload":
            self._finalizer.save_preloaded(cluster_id, host, header)
            return
        if event == "notice":
            self._take_notice(cluster_id, host, float(header.get("seconds", 0.0)))
            return
        if event == "spoilt":
            self._live_state.exit_reasons[cluster_id] = f"{host} ended: {header.get('reason', '')}"
            return
        job = self._live_state.jobs.get(str(header.get("job", "")))
        if job is not None and job.cluster == cluster_id and header.get("lease") == job.lease:
            self._take_job_event(job, host, header)

    def _take_job_event(self, job: Job, host: str, header: Mapping[str, Any]) -> None:
        event = header.get("event")
        if event == "first_line":
            self.record_first_line(job, header.get("at", {}), header.get("missing_preloads", {}))
        elif event == "grew":
            self._log_collector.on_growth(job, host, int(header.get("total", 0)))
        elif event == "sampled":
            self.on_sample(job, host, int(header.get("total", 0)), header.get("now", {}))
        elif event == "disk_wait":
            self._take_disk_wait(job, str(header.get("reason", "")))
        elif event == "exited":
            self._runtimes.get(job).record_exit(host, job.goal)
            self._reconcile(job.id)
        elif event == "ended":
            self._take_end(job, host, header)

    def _take_disk_wait(self, job: Job, reason: str) -> None:
        """Record that a job waits for a disk of its host, and why; remove that for an empty reason."""
        said = f"{DISK_WAIT}{reason}" if reason else message_of(job.state)
        if unreachable_hosts.is_noted(job):
            # The message of another host stays until it answers; this is the message to restore then.
            self._runtimes.get(job).last_remark = said
            return
        if not reason and not transitions.remark_of(job).startswith(DISK_WAIT):
            return
        told = transitions.remark(job, said)
        if told is not job:
            self._live_state.save(jobs=[told])

    def _take_notice(self, cluster_id: str, host: str, seconds: float) -> None:
        """Handle the notice for a machine: give up its pool, record the reason on its job, interrupt a spot job."""
        cluster = self._live_state.clusters.get(cluster_id)
        if cluster is None:
            return
        said = f"The machine of {host} was taken away."
        if cluster.state is ClusterState.AVAILABLE:
            self._live_state.release_pool(cluster, said, is_continued=True)
            return
        self._live_state.exit_reasons[cluster_id] = said
        job = self._live_state.jobs.get(cluster.job)
        if job is None or job.cluster != cluster_id:
            return
        runtime = self._runtimes.get(job)
        runtime.hosts_closed = True
        told = transitions.remark(
            job, f"The machine of {host} is taken away in {format_duration(seconds)}; the job was told to end."
        )
        if spot.can_be_interrupted(job, cluster) and not runtime.has_ended():
            told = transitions.interrupt(told, self._live_state.clock())
        if told is not job:
            self._live_state.save(jobs=[told])
        self._reconcile(job.id)

    def _take_end(self, job: Job, host: str, header: Mapping[str, Any]) -> None:
        if "record" in header or not header.get("kept"):
            self._host_ended(job.id, host, header.get("record") or agent_messages.parse_record(None))
            return
        # A stop request while the record is read does not change how the code ended.
        self._runtimes.get(job).record_exit(host, job.goal)
        self._read_record(job, host)

    def record_first_line(
        self, job: Job, at: Mapping[str, float], missing_preloads: Mapping[str, Any] | None = None
    ) -> None:
        """Save that the code of a job has begun, with the moments ``at`` of its host; see :meth:`corrected_why`."""
        now = self._live_state.clock()
        runtime = self._runtimes.get(job)
        runtime.first_line_moments = dict(at)
        timings = {**at, **job.timings, **runtime.moments}
        why = self._finalizer.corrected_why(job, [missing_preloads or {}])
        begun = transitions.advance(replace(job, timings=timings, why=why), SecondaryStatus.TRAINING, now)
        self._live_state.save(jobs=[begun])
        runtime.first_line_moments = None

    def _host_ended(self, job_id: str, host: str, record: dict[str, Any]) -> None:
        job = self._live_state.jobs.get(job_id)
        if job is None:
            return
        runtime = self._runtimes.get(job)
        runtime.records[host] = record
        if host not in runtime.exited_hosts:
            runtime.record_exit(host, job.goal)
        self._reconcile(job_id)

    def mark_downloading(self, job: Job) -> None:
        """Save that the inputs of a job are on their way, unless it is further already."""
        moved = transitions.advance(job, SecondaryStatus.DOWNLOADING, self._live_state.clock())
        if moved is not job:
            self._live_state.save(jobs=[moved])


def _reason(error: SmxError) -> str:
    """Return why a job could not begin, and whether by the job's fault or by ours."""
    if isinstance(error, UnexpectedError):
        return f"{attempts.INTERNAL_ERROR}: {error}"
    return f"{'CapacityError' if error.transient else 'ClientError'}: {error}"
