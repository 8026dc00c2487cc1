"""Answer all requests to the controller: validate each one, find the records that it names, and pass it on."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import asdict, replace

from jupyter_smx.controller.api.array_facade import ArrayFacade
from jupyter_smx.controller.api.shell_commands import ShellCommands
from jupyter_smx.controller.api.submission import SubmissionValidator
from jupyter_smx.controller.scheduling.engine_doctor import EngineDoctor
from jupyter_smx.controller.scheduling.engine_listing import EngineListing
from jupyter_smx.controller.state.engine_limits import types_of_engine
from jupyter_smx.controller.transfer.planned_files import list_planned_files
from jupyter_smx.engines.machine import resources
from jupyter_smx.engines.machine.other_controllers import find_other_controllers
from jupyter_smx.model.errors import (
    RefusedError,
    ResourceInUseError,
    ResourceLimitError,
    ResourceNotFoundError,
    SmxError,
    ValidationError,
    suggest_names,
)
from jupyter_smx.model.name import check_id, job_name
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.records.comparison import Comparison, compare
from jupyter_smx.model.records.event import Changes, PoolSummary
from jupyter_smx.model.records.summary import base_name_of
from jupyter_smx.model.results.reports import EngineInfo, EngineNames, PlannedFiles, Why
from jupyter_smx.model.spec.instance import TypesListing
from jupyter_smx.model.status import Status, is_final
from jupyter_smx.model.text import engine_kind
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.lifecycle import keep_alive, renewal, transitions
from jupyter_smx.policy.limits import HARD_KEEP_ALIVE
from jupyter_smx.policy.scheduling import capacity, machine_sharing, placement, reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.job_reconciler import JobReconciler
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job, JobSummary
    from jupyter_smx.model.results.reports import Bill, JobAdvice
    from jupyter_smx.model.results.usage import JobUsage
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import JobSpec
    from jupyter_smx.policy.limits import Limits


class ControllerFacade:
    """Answers requests; every change is the reconciler's.

    ``engines`` has, for each installed engine, the function that lists its machines.
    """

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        reconciler: JobReconciler,
        engine_of: Callable[[str], Engine],
        engines: Mapping[str, Callable[[], Sequence[str]]],
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._reconciler = reconciler
        self._engine_of = engine_of
        self._engines = engines
        self._engine_listing = EngineListing(live_state, engine_of, engines)
        self.validator = SubmissionValidator(live_state, engine_of, engines)
        self.arrays = ArrayFacade(live_state, reconciler, self.validator)
        self._doctor = EngineDoctor(live_state, engine_of)
        self.shell_commands = ShellCommands(live_state, engine_of)

    # Jobs

    def submit(
        self, job_id: str, spec: JobSpec, image: Image | None = None, interpreter: str | None = None
    ) -> tuple[Job, bool]:
        """Admit a request under the id that its submitter chose; a repeated request returns the same job.

        ``image`` is the result of :meth:`SubmissionValidator.cached_image`: with it a job need not wait for its image.
        ``interpreter`` is the result of :meth:`SubmissionValidator.resolve_interpreter`.

        :raises ResourceInUseError: the id belongs to another request.
        """
        check_id(job_id)
        if spec.array is not None:
            raise ValidationError(
                "array: a single job cannot be a task of an array.",
                field="array",
                value=spec.array.id,
                rule="All tasks of an array are submitted together.",
            )
        spec = self.validator.complete(spec)
        known = self._live_state.jobs.get(job_id) or self._live_state.store.job(job_id)
        if known is not None:
            if known.spec != spec:
                raise ResourceInUseError(
                    f"id: job {known.name} already has this id.",
                    field="id",
                    value=job_id,
                    cure="Use a new id for each job.",
                )
            return known, False
        self.validator.check(spec)
        self.validator.check_dependencies(spec)
        job = self.validator.new_job(job_id, spec, image, interpreter)
        self.validator.check_python_version(job)
        try:
            return self._reconciler.admit(job), True
        except ResourceInUseError as error:
            if error.field != "name":
                raise
            if spec.job_name:
                raise checks.job_name_taken_error(spec.job_name) from None
        # Among many jobs of one base name two ids begin alike; all their digits never are.
        return self._reconciler.admit(replace(job, name=job_name(spec.base_name, job_id, len(job_id)))), True

    def plan(self, spec: JobSpec, image: Image | None = None, interpreter: str | None = None) -> dict[str, Any]:
        """Return where a job would run and the request to the engine; nothing is created.

        ``image`` is the result of :meth:`SubmissionValidator.peek_image`, ``interpreter`` is as for :meth:`submit`.
        """
        spec = self.validator.complete(spec)
        self.validator.check(spec)
        job = self.validator.new_job("0" * 12, spec, image, interpreter)
        self.validator.check_python_version(job)
        decision = self._reconciler.placement_of(job)
        key = reuse.key_of_job(job, user="")
        gpus = {} if isinstance(decision, placement.Wait) else decision.gpus
        cluster = Cluster(id="0" * 12, key=key, gpus=gpus)
        request = self._reconciler.cluster_reconciler.request(cluster.id, cluster, spec)
        warm = isinstance(decision, placement.Reuse)
        asked = {} if warm else self._engine_of(spec.engine).plan(request)
        return {"sentence": decision.why.sentence, "why": asdict(decision.why), "engine_request": asked}

    async def planned_files(self, spec: JobSpec) -> tuple[PlannedFiles, ...]:
        """List what hosts of another machine would be sent, as far as they do not see it; asks no host."""
        capabilities = self._engine_of(spec.engine).capabilities
        if capabilities.same_paths:
            return ()
        files = await asyncio.to_thread(list_planned_files, spec, capabilities.shared_folders)
        if not (capabilities.builds_environments and spec.requirements):
            return files
        return (*files, PlannedFiles(kind="requirements", name=", ".join(spec.requirements)))

    def job(self, ref: str) -> Job:
        """Find a job.

        :raises ResourceNotFoundError: none or several.
        """
        return self._with_current_reason(self._live_state.job(ref))

    def _with_current_reason(self, job: Job) -> Job:
        # A record does not change each time its job moves up in the queue, so compute the position at each read.
        waits = job.id in self._live_state.jobs and not job.cluster
        if not waits or self._live_state.summary(job).queue_position is None:
            return job
        try:
            decision = self._reconciler.placement_of(job)
        except SmxError as error:
            # Its engine is not installed any more: the job waits until it is, or until the user stops the job.
            return replace(job, why=Why(start="queued", sentence=f"Queued. {error}"))
        waits = isinstance(decision, placement.Wait)
        return replace(job, why=placement.add_lost_notes(decision.why, job)) if waits else job

    def summary(self, job: Job) -> JobSummary:
        """Return the summary of a job, as lists show it."""
        return self._live_state.summary(job)

    def advice(self, job: Job, usage: JobUsage) -> JobAdvice:
        """Return how a job could run better, as far as its resource usage shows."""
        return self._live_state.advice(job, usage)

    def bill(self, job: Job) -> Bill:
        """Return the bill of a job."""
        return self._live_state.bill(job)

    def compare(self, ref: str, other: str) -> Comparison:
        """Return how a job differs from another one, or ("") from the previous run of the same base name.

        If there was no such run, ``before`` is "".

        :raises ResourceNotFoundError: one of the two is not known.
        """
        after = self.job(ref)
        before = other or self._live_state.store.previous_run(after)
        if before is None:
            sentence = f"{base_name_of(after)} has no run before {after.name}."
            return Comparison(before="", after=after.name, sentence=sentence)
        return compare(self.job(before), after)

    def jobs(self, limit: int, before: str, status: Status | None) -> list[JobSummary]:
        """Return one page of jobs, newest first, with live values as of now."""
        return self._live_state.refresh_summaries(self._live_state.store.summaries(limit, before, status))

    def stop(self, ref: str, *, abandon: bool = False) -> Job:
        """Set the goal of a job to stop; a finished job is given back as it is.

        With ``abandon`` its verdict does not wait for hosts that cannot be reached.
        """
        wanted, job = self._reconciler.desired_state, self._live_state.job(ref)
        return wanted.abandon(job) if abandon else wanted.stop(job)

    def interrupt(self, ref: str) -> Job:
        """Interrupt a spot job: take its hosts away, as the spot market does.

        :raises ValidationError: it is no spot job.
        :raises ResourceInUseError: it has no running hosts now.
        """
        return self._reconciler.desired_state.interrupt(self._live_state.job(ref))

    async def set_keep_alive(self, ref: str, seconds: int) -> Job:
        """Set the keep-alive of a job: it counts after the job, or from now for the pool that the job retains.

        :raises ResourceInUseError: the job has ended, and retains no pool.
        :raises ResourceLimitError: over the administrator's cap.
        """
        job = self._live_state.job(ref)
        if job.id in self._live_state.jobs:
            keep_alive.check(seconds, self._live_state.limits)
        else:
            pool = next((pool for pool, holder in self._live_state.holders.items() if holder.id == job.id), None)
            if pool is None:
                raise keep_alive.holder_error(job)
            await self.extend(pool, seconds)
        current = self._live_state.job(job.id)  # a pool that was released just now is on its record
        changed = transitions.set_keep_alive(current, seconds, self._live_state.clock())
        self._live_state.save(jobs=[changed])
        return changed

    def delete(self, ref: str) -> Job:
        """Delete the record of a finished job, as SageMaker allows it.

        :raises ResourceInUseError: it is not finished, or its warm pool is available.
        """
        job = self._live_state.job(ref)
        if not is_final(job.state):
            raise ResourceInUseError(f"{job.name} is {job.state.value}.", field="job", value=ref, cure="Stop it first.")
        waiting = self._live_state.job_queue.dependents(job)
        if waiting:
            names = ", ".join(each.name for each in waiting[:3])
            raise ResourceInUseError(
                f"{job.name} cannot be deleted yet, because other jobs depend on it (--after): {names}.",
                field="job",
                value=ref,
                rule="Its result decides whether they run.",
                cure="Wait until they end, or stop them.",
            )
        held = next((k for k, holder in self._live_state.holders.items() if holder.id == job.id), None)
        if held is not None:
            raise ResourceInUseError(
                f"{job.name} retains a warm pool.", field="job", value=ref, cure="Release the pool first."
            )
        self._live_state.delete_job(job)
        return job

    async def wait_job(self, ref: str, until: str, timeout: float) -> Job:
        """Return a job when it is final, or its first line ran, or after ``timeout`` seconds."""
        deadline = self._live_state.monotonic() + timeout
        job = self._live_state.job(ref)
        while not _is_reached(job, until):
            left = deadline - self._live_state.monotonic()
            if left <= 0:
                break
            await self._live_state.change_signal.wait(left)
            job = self._live_state.job(job.id)
        return self._with_current_reason(job)

    # Pools

    def pools(self) -> list[PoolSummary]:
        """Return all live clusters."""
        return self._live_state.list_pools()

    def _idle_pool(self, ref: str) -> Cluster:
        cluster = self._live_state.pool(ref)
        if cluster.state is not ClusterState.AVAILABLE:
            raise ResourceInUseError(
                f"Pool {cluster.name()} is {cluster.state.value}.",
                field="pool",
                value=ref,
                rule="The keep-alive of a pool can change only while the pool is Available.",
                cure="Wait for its job to end, or stop the job." if cluster.job else "",
            )
        return cluster

    async def extend(self, ref: str, seconds: int) -> PoolSummary:
        """Keep an idle pool for ``seconds`` from now; 0 releases it.

        :raises ResourceInUseError: it is not idle.
        :raises ResourceLimitError: over the cap, or the quota, or longer than the allocation of its hosts lasts.
        :raises RefusedError: its engine fixes the end of hosts at their launch.
        """
        cluster = self._idle_pool(ref)
        if seconds == 0:
            return self.release(ref)
        limits = self._live_state.limits
        keep_alive.check(seconds, limits, of_a_pool=True)
        now = self._live_state.clock()
        keep_alive.check_allocation(cluster, seconds, now)
        seconds = min(seconds, max(1, keep_alive.remaining_pool_lifetime(cluster, limits, now)))
        self._check_extension(cluster, now + seconds)
        # The agents first: they end by their own clock, so a longer time on record would be wrong if they refuse.
        for host in cluster.hosts:
            await self._agents.stream(cluster.id, host.name).set_deadline(seconds=seconds)
        current = self._idle_pool(cluster.id)
        changed = self._live_state.amend_cluster(current.id, expires_at=now + seconds, keep_alive=seconds, kept_for="")
        return self._live_state.pool_summary(changed or current)

    def _check_extension(self, cluster: Cluster, until: float) -> None:
        longer = cluster.expires_at is not None and until > cluster.expires_at
        if longer and not self._engine_of(cluster.key.engine).capabilities.extend:
            raise RefusedError(
                f"Pool {cluster.name()} cannot be extended.",
                field="keep_alive",
                value=cluster.key.engine,
                rule=f"The engine {cluster.key.engine} sets the lifetime of its hosts when it launches them.",
                cure="Start the next job with a longer --keep-alive.",
            )
        if cluster.kept_for:
            self._check_quota(cluster)

    def _check_quota(self, cluster: Cluster) -> None:
        """Check the quota for hosts that waited for a task of an array, and so did not count, as for any pool."""
        others = [other for other in self._live_state.clusters.values() if other.id != cluster.id]
        full = keep_alive.warm_pool_quota_error(cluster.key.instance_groups, others, self._live_state.limits)
        if full:
            raise ResourceLimitError(
                f"Pool {cluster.name()} cannot be extended.",
                field="keep_alive",
                value=cluster.name(),
                rule=full,
                cure="Release another pool.",
            )

    def release(self, ref: str) -> PoolSummary:
        """Start to release an idle pool, or give back hosts that wait to continue one.

        :raises ResourceInUseError: it is not idle.
        """
        waits = self._live_state.pool(ref)
        if waits.state is ClusterState.PROVISIONING and renewal.is_without_job(waits):
            return self._live_state.pool_summary(self._reconciler.renewals.give_back(waits))
        cluster = self._idle_pool(ref)
        ending = self._live_state.release_pool(cluster, "Released by the user.")
        self._reconciler.renewals.decline(cluster)
        for ended in (cluster.id, cluster.renewed_by):
            self._reconciler.cluster_reconciler.reconcile(ended)
        return self._live_state.pool_summary(ending)

    # The rest

    def changes(self, since: int, limit: int) -> Changes:
        """Return the events after a number."""
        events, newest, reset = self._live_state.store.events_since(since, limit)
        return Changes(events=tuple(events), seq=newest, reset=reset)

    def next_change(self) -> asyncio.Future[None]:
        """Return the future of the next change. It is shared, so callers must not cancel it."""
        return self._live_state.change_signal.next_change()

    def instance_types(self) -> TypesListing:
        """List the catalogue and what engines bring beside it, those that the administrator allows."""
        limits = self._live_state.limits
        allowed = limits.allowed_instance_types
        rows = tuple(kind for name, kind in limits.catalogue.items() if not allowed or name in allowed)
        brought = {
            name: tuple(kind for kind in kinds if not allowed or kind.name in allowed)
            for name in self._engine_names(limits.allowed_engines or self._engines)
            if (kinds := types_of_engine(self._engine_of, name))
        }
        return TypesListing(instance_types=rows, file=limits.instance_types_file, engines=brought)

    def _engine_names(self, known: Iterable[str]) -> list[str]:
        """List engines, and by their targets those that have hosts now."""
        live = {cluster.key.engine for cluster in self._live_state.clusters.values()}
        return sorted({*known, *(name for name in live if ":" in name)})

    def _used_share(self) -> capacity.Share:
        """Add up the shares of this machine that hosts hold; hosts of other engines hold none."""
        total = capacity.Share()
        for cluster in self._live_state.clusters.values():
            limits = self._live_state.limits_of(cluster.key.engine)
            if limits.bounded_by_machine:
                total = total.plus(capacity.used_share([cluster], limits))
        return total

    def engine(self, name: str) -> EngineInfo:
        """Describe an engine for a submitter.

        :raises ResourceNotFoundError: there is no such engine.
        """
        self._check_engine(name)
        engine = self._engine_of(name)
        declared = engine.capabilities
        interpreters = "local" if declared.images else declared.interpreters
        return EngineInfo(
            name=name,
            interpreters=interpreters,
            same_paths=declared.same_paths,
            images=declared.images,
            keep_alive_cap=min(self._live_state.limits.keep_alive_cap, HARD_KEEP_ALIVE),
            aws_front="isolated" if engine.is_network_isolated() else _front_access(declared.aws_front),
        )

    async def engine_names(self, engine: str = "") -> EngineNames:
        """List the names of engines, and the names of options on one of them.

        :raises ResourceNotFoundError: there is no such engine.
        """
        if engine:
            self._check_engine(engine)
        return await self._engine_listing.list_names(engine)

    async def doctor(self, engine: str = "") -> dict[str, Any]:
        """Return the data of the doctor page about the controller and every engine, or one engine.

        :raises ResourceNotFoundError: there is no such engine.
        """
        if engine:
            self._check_engine(engine)
            return {"engines": await self._doctor.examine([engine], is_brief=False)}
        limits = self._live_state.limits
        used = self._used_share()
        rows = (
            ("hosts", used.hosts, limits.max_hosts),
            ("cpus", used.cpus, limits.cpus),
            ("memory_gib", used.memory_gib, limits.memory_gib),
            ("gpus", used.gpus, limits.gpus),
        )
        return {
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "epoch": self._live_state.store.epoch,
            "jobs": len(self._live_state.jobs),
            "pools": len(self._live_state.clusters),
            "engines": await self._doctor.examine(self._engine_names(self._engines), is_brief=True),
            "instance_types": sorted(limits.catalogue),
            "instance_types_from": limits.instance_types_file or "the catalogue that ships with jupyter-smx",
            **await asyncio.to_thread(_machine_sharing, limits),
            "capacity": {name: [round(taken, 2), round(total, 2)] for name, taken, total in rows},
            "keep_alive_cap": limits.keep_alive_cap,
        }

    async def fix(self, engine: str = "") -> dict[str, list[str]]:
        """Run the cleanup of every engine, or one; return what was removed, or why nothing was, by engine.

        :raises ResourceNotFoundError: there is no such engine.
        """
        if engine:
            self._check_engine(engine)
        return await self._doctor.fix([engine] if engine else self._engine_names(self._engines))

    def _check_engine(self, name: str) -> None:
        if engine_kind(name) not in self._engines:
            raise ResourceNotFoundError(
                f"There is no engine {name!r}.",
                field="engine",
                value=name,
                rule=f"Installed engines: {', '.join(sorted(self._engines))}.",
                cure=suggest_names(name, self._engines),
            )


def _machine_sharing(limits: Limits) -> dict[str, str]:
    """Return the advice for a machine with several controllers, if there is one. Blocks."""
    users = [controller.user for controller in find_other_controllers(os.getpid())]
    whole = resources.whole_machine()
    advice = machine_sharing.sharing_advice(limits, users, whole.cpus, whole.memory_gib())
    return {"shared_machine": advice} if advice else {}


def _front_access(declared: Literal["none", "loopback", "relay", "stream"]) -> Literal["none", "loopback", "relay"]:
    """Return how jobs reach the front as a submitter sees it: a relay and a stream of an agent are one to a job."""
    return "relay" if declared == "stream" else declared


def _is_reached(job: Job, until: str) -> bool:
    return is_final(job.state) or (until == "first_line" and "first_line" in job.timings)
