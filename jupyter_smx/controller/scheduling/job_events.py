"""Takes down what the fleet and the agents say of jobs, in trails and records, and has the job looked at again."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError, RecordsError, alone
from jupyter_smx.controller.scheduling.finalize import MAX_BROKEN_OFF
from jupyter_smx.controller.state.job_runtime import Trail
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.controller.unexpected import UnforeseenError, unforeseen
from jupyter_smx.engines.base import NotHereError
from jupyter_smx.model.errors import SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import ENDING, SecondaryStatus, message_of
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.info import given_up
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.lifecycle import image_pull, retries, transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.finalize import Finisher
    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.controller.telemetry.log_collector import LogPump
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)

MAX_REFUSALS = 3
_SILENT = "Its hosts cannot be reached now: "
AGAIN = 1.0
"""Seconds until an agent that did not answer is asked again."""


class Listener(ABC):
    """Hears of greetings, first lines, ends, refusals and losses; what is next is decided by whoever steps."""

    def __init__(self, books: Books, agents: Agents, pump: LogPump, finisher: Finisher) -> None:
        self.books = books
        self.agents = agents
        self._pump = pump
        self._finisher = finisher
        self._trails: dict[str, Trail] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Told of each sample of what a job uses: job, host, bytes of samples there, newest figures.
        self.on_sampled: Callable[[Job, str, int, Mapping[str, Any]], None] = lambda *_news: None

    @abstractmethod
    def step(self, job_id: str) -> None:
        """Look at one job."""

    @abstractmethod
    def room_made(self) -> None:
        """Look at the jobs that wait for hosts."""

    @abstractmethod
    def fenced(self) -> None:
        """Learn that another controller owns the records."""

    def cluster_ready(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Adopt what the agents know: jobs that run or ended, and how long an idle pool has left."""
        job = self.books.jobs.get(cluster.job)
        if job is not None:
            job = self._told_what_is_given_up(self._heard_again(job), cluster)
        for host, said in greetings.items():
            for known, facts in said.get("jobs", {}).items():
                if job is not None and known == job.id:
                    self._adopt(job, host, facts)
                elif known not in self.books.jobs:
                    self.agents.stream(cluster.id, host).send_now("forget", job=known, lease=facts.get("lease", 0))
        if cluster.state is ClusterState.AVAILABLE:
            self._finisher.adopt_deadline(cluster, greetings)
            self.room_made()
        if job is not None:
            self.step(job.id)

    def _told_what_is_given_up(self, job: Job, cluster: Cluster) -> Job:
        notes = given_up(cluster.hosts)
        if job.why is None or not set(notes) - set(job.why.notes):
            return job
        told = replace(job, why=replace(job.why, notes=tuple(dict.fromkeys([*job.why.notes, *notes]))))
        self.books.save(jobs=[told])
        return told

    def _adopt(self, job: Job, host: str, facts: Mapping[str, Any]) -> None:
        job = self.books.jobs.get(job.id, job)  # another host's facts may have moved it on
        trail = self._trail(job)
        trail.dispatched.add(host)
        self._pump.grew(job, host, int(facts.get("log", 0)))
        self.on_sampled(job, host, int(facts.get("samples", 0)), {})
        if facts.get("phase") == "staging":
            self._downloading(job)
        at = facts.get("at", {})
        if at.get("exited") is not None:
            trail.exited.add(host)  # nobody listened, so the records have to say what was wished then
        if at.get("first_line") is not None and "first_line" not in job.timings:
            # Nobody listened when the code began.
            self._first_line(job, {name: moment for name, moment in at.items() if moment is not None})
        if facts.get("phase") == "ended":
            self._read_record(job, host)

    def _read_record(self, job: Job, host: str) -> None:
        """Begin to read a record where it lies, unless that is under way; a long one takes a while."""
        trail = self._trail(job)
        if host not in trail.fetching:
            trail.fetching.add(host)
            self._begin(self._fetch_record(job, host, trail), f"record {job.id} {host}")

    async def _fetch_record(self, job: Job, host: str, trail: Trail) -> None:
        try:
            record = await self._record_there(job, host)
        finally:
            trail.fetching.discard(host)
        now = self.books.jobs.get(job.id)
        # Meanwhile the job may have lost these hosts, and begun again on others of the same names.
        if record is not None and now is not None and (now.cluster, now.lease) == (job.cluster, job.lease):
            self._host_ended(job.id, host, record)

    async def _record_there(self, job: Job, host: str) -> dict[str, Any] | None:
        record = None
        # Where the stream broke, the next greeting says again that it is there.
        while record is None and job.id in self.books.jobs and self.agents.is_open(job.cluster):
            record = await self._try_record(job, host)
        return record

    async def _try_record(self, job: Job, host: str) -> dict[str, Any] | None:
        try:
            return await self._finisher.fetch_record(job, host)
        except UnavailableError as error:
            _log.warning("Job %s: the record on %s cannot be read yet: %s", job.name, host, error)
        await asyncio.sleep(AGAIN)
        return None

    def cluster_refused(self, cluster: Cluster, error: SmxError, *, again: bool = True) -> None:
        """Try again after a transient refusal, a few times; otherwise the job failed before it began."""
        job = self.books.jobs.get(cluster.job)
        if job is None:
            return
        trail = self._trail(job)
        trail.refusals += 1
        waits = replace(job, cluster="", lease=0) if error.transient else None
        if isinstance(error, NotHereError) and job.image is not None:
            waits, error = image_pull.gone(job, self.books.clock()), image_pull.lost(job.image)
        if again and waits is not None and trail.refusals < MAX_REFUSALS and job.goal not in ENDING:
            trail.not_before = self.books.steady() + 0.5 * 2**trail.refusals
            trail.hosts = ()
            self.books.save(jobs=[waits])
            return
        if job.goal in ENDING:
            self._finisher.stop_unstarted(replace(job, cluster="", lease=0))
        else:
            self._finisher.fail_unstarted([job], _reason(error))
        self._drop_trail(job.id)
        self.room_made()

    def environment_ready(self) -> None:
        """Let jobs stand in line, with their age."""
        self.room_made()

    def environment_failed(self, jobs: Sequence[Job], error: SmxError) -> None:
        """End jobs whose requirements cannot be had."""
        # What sagemaker-training says where pip fails.
        pip = f"AlgorithmError: InstallRequirementsError: {error}"
        self._finisher.fail_unstarted(jobs, _reason(error) if isinstance(error, UnforeseenError) else pip)
        for job in jobs:
            self._drop_trail(job.id)
        self.room_made()

    def image_refused(self, jobs: Sequence[Job], error: SmxError) -> None:
        """End jobs of whose image no hosts can be made."""
        self._finisher.fail_unstarted(jobs, _reason(error))
        for job in jobs:
            self._drop_trail(job.id)
        self.room_made()

    def trail_of(self, job_id: str) -> Trail | None:
        """Give what is known of a job on its hosts now."""
        return self._trails.get(job_id)

    def host_refused(self, job: Job, host: str, reason: str) -> None:
        """End a job on a host that would refuse it for ever."""
        self._host_ended(job.id, host, {"cause": "refused", "failure": reason})

    def host_failed(self, job: Job, host: str, reason: str) -> None:
        """End a job on a host by a fault of ours."""
        self._host_ended(job.id, host, {"cause": "host", "failure": reason})

    def cluster_silent(self, cluster: Cluster, error: UnavailableError) -> None:
        """Say on a job's record why nothing is heard of it, and what to do; taken back when its hosts answer."""
        job = self.books.jobs.get(cluster.job)
        if job is None or job.cluster != cluster.id:
            return
        trail, said = self._trail(job), transitions.remark_of(job)
        if not said.startswith(_SILENT):
            trail.said = said
        told = transitions.remark(job, f"{_SILENT}{error.message} {error.cure}".strip())
        if told is not job:
            self.books.save(jobs=[told])

    def _heard_again(self, job: Job) -> Job:
        if not transitions.remark_of(job).startswith(_SILENT):
            return job
        told = transitions.remark(job, self._trail(job).said or message_of(job.state))
        self.books.save(jobs=[told])
        return told

    async def cluster_lost(self, cluster: Cluster) -> None:
        """Read what the hosts left on disk; then the job ends by that, or begins again elsewhere."""
        job = next((each for each in self.books.jobs.values() if each.cluster == cluster.id), None)
        if job is None or self._trail(job).reading:
            return
        trail = self._trail(job)
        trail.reading = True
        try:
            await self._read_remains(job, cluster, trail)
        finally:
            trail.reading = False
        trail.lost = True
        self.step(job.id)

    async def _read_remains(self, job: Job, cluster: Cluster, trail: Trail) -> None:
        # Code may take its own log away; that its first line was heard is written where it cannot.
        trail.ran |= "first_line" in job.timings or trail.begun is not None
        # Hosts that never came up are not on the record of their cluster, and were given nothing.
        for host in trail.hosts if cluster.hosts else ():
            if host not in trail.records:
                ran, record = await self._finisher.read_remains(job, host)
                trail.ran |= ran
                if record is None:
                    trail.obituaries[host] = self._finisher.obituary(job, host)
                else:
                    trail.records[host] = record

    def _left_without(self, job: Job) -> Cluster | None:
        """Give the cluster of a live job that has ended, or is being released, without the job's record saying so."""
        live = self.books.cluster_of(job)
        if live is None:
            return self.books.store.cluster(job.cluster) if job.cluster else None
        return live if live.state is ClusterState.RELEASING else None

    async def _learn_of_loss(self, job: Job, cluster: Cluster) -> None:
        """Tell a job of the end of its hosts that was written down, while what follows from it for the job was not."""
        try:
            with alone(_log, "What became of {} on its hosts is not known yet", job.name):
                await self._learn_or_put_off(job, cluster)
        except FencedError:
            self.fenced()
            raise

    async def _learn_or_put_off(self, job: Job, cluster: Cluster) -> None:
        try:
            with unforeseen(_log, f"A look at the lost hosts of {job.name}"):
                await self.cluster_lost(cluster)
        except UnforeseenError:
            trail = self._trail(job)
            if trail.broke_off(self.books.steady()) >= MAX_BROKEN_OFF:
                # Its end is brought without what they left, and code that may have begun is never begun again.
                trail.ran = trail.lost = True
            raise

    def agent_said(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        """Take one event frame of an agent; frames of another lease are stale and dropped."""
        try:
            said = agent_messages.event(header)
        except agent_messages.GarbledError as error:
            _log.warning("What %s of cluster %s said has not the form of an event: %s", host, cluster_id, error)
            return
        try:
            self.books.heed_the_clock()
            self._take_event(cluster_id, host, said)
        except FencedError:
            self.fenced()
        except SmxError as error:
            # A full disk, say; what matters of it is kept in the trail, and written down when there is room.
            _log.warning("What %s of cluster %s said is not written down yet: %s", host, cluster_id, error)

    def _take_event(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        event = header.get("event")
        if event == "preload":
            self._finisher.preloaded(cluster_id, host, header)
            return
        if event == "spoilt":
            self.books.last_words[cluster_id] = f"{host} ended: {header.get('reason', '')}"
            return
        job = self.books.jobs.get(str(header.get("job", "")))
        if job is None or job.cluster != cluster_id or header.get("lease") != job.lease:
            return
        if event == "first_line":
            self._first_line(job, header.get("at", {}))
        elif event == "grew":
            self._pump.grew(job, host, int(header.get("total", 0)))
        elif event == "sampled":
            self.on_sampled(job, host, int(header.get("total", 0)), header.get("now", {}))
        elif event == "exited":
            self._trail(job).host_exited(host, job.goal)
            self.step(job.id)
        elif event == "ended":
            self._take_end(job, host, header)

    def _take_end(self, job: Job, host: str, header: Mapping[str, Any]) -> None:
        if "record" in header or not header.get("kept"):
            self._host_ended(job.id, host, header.get("record") or agent_messages.record(None))
            return
        # What is wished while the record is read changes nothing of how the code ended.
        self._trail(job).host_exited(host, job.goal)
        self._read_record(job, host)

    def _first_line(self, job: Job, at: Mapping[str, float]) -> None:
        now = self.books.clock()
        trail = self._trail(job)
        trail.begun = dict(at)
        timings = {**at, **job.timings, **trail.moments}
        begun = transitions.advance(replace(job, timings=timings), SecondaryStatus.TRAINING, now)
        self.books.save(jobs=[begun])
        trail.begun = None

    def _host_ended(self, job_id: str, host: str, record: dict[str, Any]) -> None:
        job = self.books.jobs.get(job_id)
        if job is None:
            return
        trail = self._trail(job)
        trail.records[host] = record
        if host not in trail.exited:
            trail.host_exited(host, job.goal)
        self.step(job_id)

    def _downloading(self, job: Job) -> None:
        moved = transitions.advance(job, SecondaryStatus.DOWNLOADING, self.books.clock())
        if moved is not job:
            self.books.save(jobs=[moved])

    def _tell_of_another_version(self, job: Job) -> Job:
        told = transitions.remark(
            job, "It runs under another version of jupyter-smx; its end is read when its hosts end."
        )
        if told is not job:
            self.books.save(jobs=[told])
        return told

    def _put_off(self, job_id: str, error: SmxError) -> None:
        job = self.books.jobs[job_id]
        # Lists show it, so it names no path.
        full = isinstance(error, (StagingError, RecordsError))
        waits = transitions.remark(job, f"Its end waits{' for room on the disk.' if full else f': {error.message}'}")
        if waits is not job:
            _log.warning("Job %s cannot be finished yet: %s", job.name, error)
            with suppress(RecordsError):
                self.books.save(jobs=[waits])

    def _trail(self, job: Job) -> Trail:
        trail = self._trails.setdefault(job.id, Trail())
        if job.cluster and not trail.hosts:
            trail.hosts = tuple(host.name for host in named_hosts(job.spec.instance_groups))
            trail.groups = job.spec.instance_groups
        return trail

    def _drop_trail(self, job_id: str) -> None:
        """Forget what is known of a job on its hosts; what is being brought to them for it is not needed any more."""
        trail = self._trails.pop(job_id, None)
        if trail is not None and trail.bringing is not None:
            trail.bringing.cancel()

    def _begin(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _reason(error: SmxError) -> str:
    """Say why a job could not begin, and by whose fault."""
    if isinstance(error, UnforeseenError):
        return f"{retries.OURS}: {error}"
    return f"{'CapacityError' if error.transient else 'ClientError'}: {error}"
