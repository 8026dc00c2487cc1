"""Prepare jobs for the queue: have environments built and images found, and report the progress."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError, log_and_continue, wrap_unexpected
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.controller.scheduling.task_set import TaskSet
from jupyter_smx.model.errors import SmxError, UnavailableError, ValidationError
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.status import TERMINAL_GOALS
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.admission import image_rules, interpreter_rules
from jupyter_smx.policy.lifecycle import environment, image_pull, transitions
from jupyter_smx.policy.scheduling import reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jupyter_smx.controller.environments.cache import EnvironmentCache
    from jupyter_smx.controller.scheduling.job_events import JobEventHandler
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine, PullProgress
    from jupyter_smx.model.records.cluster import ReuseKey
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import PythonEnvironment

_log = logging.getLogger(__name__)

BUILDING = "Building the environment"
RESOLVING = "Inspecting the image"
BUILDING_IMAGE = "Building the image"


class _PreparationTask:
    """An environment or an image under way, the ids of the jobs that wait for it, and how far it is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.jobs: dict[str, None] = {}
        self.step = ""
        self.moments: dict[str, float] = {}
        """When the download of an image began, and when it was over."""
        self.task: asyncio.Task[None] | None = None
        self._clock = clock

    def report_step(self, step: str) -> None:
        """Record the current step."""
        self.step = step

    def report_pull(self, step: PullProgress) -> None:
        """Record the progress of an image."""
        self.step = step.text
        if step.downloads:
            self.moments.setdefault(image_pull.PULLING, self._clock())
            self.moments.pop(image_pull.PULLED, None)
        elif self.moments:
            self.moments.setdefault(image_pull.PULLED, self._clock())

    @property
    def is_downloading(self) -> bool:
        """Return True if an image is being downloaded now."""
        return image_pull.PULLING in self.moments and image_pull.PULLED not in self.moments

    def cancel(self) -> None:
        """Cancel it."""
        if self.task is not None:
            self.task.cancel()


class Preparation:
    """Jobs that wait for an environment or an image; the record of such a job shows that from the first step here.

    Hosts with an image use only its content, so no job waits for both. The meaning of an image's name may change at any
    time. So the engine resolves it for each job at its submission, also if the job has dependencies, and the result is
    on the job's record for all its attempts. An environment is built when its turn comes. Jobs of an engine that builds
    environments on its hosts do not wait here.

    All tasks of an array need the same one, and there may be ten thousand of them: each change of an environment is one
    write for all jobs that wait for it.
    """

    def __init__(
        self,
        live_state: LiveState,
        environments: EnvironmentCache,
        engine_of: Callable[[str], Engine],
        events: JobEventHandler,
        user: str,
    ) -> None:
        self._live_state = live_state
        self._environments = environments
        self._engine_of = engine_of
        self._events = events
        self._user = user
        self._preparations: dict[str, _PreparationTask] = {}
        self._waits: dict[str, str] = {}
        """Which environment, or image, a job waits for."""
        self._tasks = TaskSet()

    def is_over(self, job: Job) -> bool:
        """Return True if a job may enter the queue: it needs nothing, or has it and that is on record."""
        if job.spec.image:
            return image_pull.is_available(job)
        if self._environment(job) is None:
            return True
        return not environment.is_building(job.timings) and self._environments.is_ready(self._key(job))

    def begin(self, job: Job) -> None:
        """Start building a job's environment or resolving its image, or join the task under way.

        This is the first step of such a job. Others that need the same, and wait for nothing else, start with it.
        """
        if job.id in self._waits:
            return
        jobs = [job]
        if not environment.is_building(job.timings):
            jobs = self._write_down([job, *self._others(job)])
        for each in jobs:
            self._join(each)

    def _others(self, job: Job) -> Iterator[Job]:
        if job.id not in self._live_state.jobs:
            return  # It is being admitted. Jobs admitted before it have begun, or begin at their turn.
        name = self._name(job)
        for other in self._live_state.jobs.values():
            if other.id != job.id and self._has_same_need(other, name):
                yield other

    def _has_same_need(self, job: Job, name: str) -> bool:
        if (
            not self._needs_preparation(job)
            or job.cluster
            or job.goal in TERMINAL_GOALS
            or environment.is_building(job.timings)
        ):
            return False
        return self._name(job) == name and (bool(job.spec.image) or self._may_begin(job))

    def _may_begin(self, job: Job) -> bool:
        return self._live_state.job_queue.dependency_status(job).is_satisfied()

    def _write_down(self, jobs: Iterable[Job]) -> list[Job]:
        now = self._live_state.clock()
        begun = [_with_start(job, now) for job in jobs]
        self._live_state.save(jobs=begun)
        return begun

    def _join(self, job: Job) -> None:
        name = self._waits[job.id] = self._name(job)
        build = self._preparations.get(name)
        if build is None:
            build = self._preparations[name] = _PreparationTask(self._live_state.clock)
            build.task = self._tasks.start(self._provide(name, build, job), f"prepare {name}")
        build.jobs[job.id] = None

    async def _provide(self, name: str, build: _PreparationTask, job: Job) -> None:
        trouble, image = None, None
        try:
            with wrap_unexpected(_log, f"{_activity(job)} ({_format_need(job)})"):
                image = await self._obtain(job, build)
        except SmxError as error:
            trouble = error
        finally:
            # A cancelled task may have been replaced already, if another job needs the same.
            if self._preparations.get(name) is build:
                self._remove(name)
        try:
            self._on_done(build, job, image, trouble)
        except FencedError:
            self._events.on_fenced()
            raise
        except SmxError as error:
            # The records cannot be written now: the next look begins again, and finds what is ready.
            _log.warning("jobs=%d preparation failed: %s", len(build.jobs), error)

    async def _obtain(self, job: Job, build: _PreparationTask) -> Image | None:
        spec = job.spec
        if not spec.image:
            await self._environments.provide(self._key(job), build.report_step)
            return None
        found = await self._find(self._engine_of(spec.engine), job, build)
        image_rules.check_program(spec, found)
        return found if job.image is None else image_pull.check_same_image(job.image, found)

    async def _find(self, engine: Engine, job: Job, build: _PreparationTask) -> Image:
        """Build or resolve an image, and repeat after a while if its registry or the engine itself does not answer.

        A registry is retried for a minute. The engine is retried without a limit: the submission checked its
        installation.
        """
        delays, settings = iter(image_pull.BACKOFF), engine_capabilities.image_arguments(job.spec)
        while True:
            try:
                if image_pull.is_built(job):
                    return await engine.build_image(job.spec.build, build.report_pull, **settings)
                return await engine.resolve_image(image_pull.pull_reference(job), build.report_pull, **settings)
            except SmxError as error:
                is_engine = isinstance(error, UnavailableError)
                seconds = next(delays, image_pull.BACKOFF[-1] if is_engine else None)
                if seconds is None or not error.transient:
                    raise
                build.report_step(image_pull.format_retry(error, seconds))
            await asyncio.sleep(seconds)

    def _remove(self, name: str) -> None:
        for job_id in self._preparations.pop(name).jobs:
            del self._waits[job_id]

    def _on_done(self, build: _PreparationTask, one: Job, image: Image | None, trouble: SmxError | None) -> None:
        jobs = self._waiting_jobs(build)
        if not jobs:
            return
        if trouble is not None and not one.spec.image:
            _log.warning("jobs=%s environment failed: %s", _format_names(jobs), trouble)
            self._events.on_environment_failed(jobs, trouble)
            return
        able, refused = _split(jobs, image) if trouble is None else ([], [(trouble, jobs)])
        # Before the first event, which schedules: a job without a result would be prepared again.
        if able:
            self._save_result(able, one, image, build)
        for error, unable in refused:
            _log.warning("jobs=%s image refused: %s", _format_names(unable), error)
        if refused:
            self._events.on_image_refused(refused)
        if able:
            self._events.on_environment_ready()

    def _waiting_jobs(self, build: _PreparationTask) -> list[Job]:
        found = (self._live_state.jobs.get(job_id) for job_id in build.jobs)
        return [job for job in found if job is not None]

    def _save_result(self, jobs: Sequence[Job], one: Job, image: Image | None, build: _PreparationTask) -> None:
        now = self._live_state.clock()
        built = [_with_result(job, now, image, build.moments, held=not self._may_begin(job)) for job in jobs]
        self._live_state.save(jobs=built)
        if image is None:
            self._environments.mark_used(self._key(one))
            self._environments.prune(self._keys_in_use())

    def _keys_in_use(self) -> list[ReuseKey]:
        wanted = [self._key(job) for job in self._live_state.jobs.values() if self._environment(job)]
        return [*wanted, *(cluster.key for cluster in self._live_state.clusters.values())]

    def drop(self, job_id: str) -> None:
        """Remove a job that ends; if it was the last one that needed an environment, cancel the build."""
        name = self._waits.pop(job_id, None)
        if name is None:
            return
        build = self._preparations[name]
        del build.jobs[job_id]
        if not build.jobs:
            del self._preparations[name]
            build.cancel()

    def tick(self) -> None:
        """Begin again what an earlier controller had begun, and write down how far everything is."""
        for job in [*self._live_state.jobs.values()]:
            if not job.cluster and environment.is_building(job.timings):
                self.begin(job)
        news = [job for build in self._preparations.values() if build.step for job in self._step_updates(build)]
        if news:
            self._save_steps(news)

    def _step_updates(self, build: _PreparationTask) -> Iterator[Job]:
        """Yield the jobs whose records lack the current progress, with it; of an array, only the first task."""
        speakers: dict[str, Job] = {}
        for job in self._waiting_jobs(build):
            speakers.setdefault(job.spec.array.id if job.spec.array else job.id, job)
        for job in speakers.values():
            said = self._with_step(job, build)
            if said is not job:
                yield replace(said, why=_why(said, build.step))

    def _with_step(self, job: Job, build: _PreparationTask) -> Job:
        if not build.is_downloading:
            return transitions.remark(job, f"{_activity(job)}: {build.step}.")
        said = transitions.record_image_pull(
            job, f"{image_pull.format_pull_status(job.spec.image)}: {build.step}.", self._live_state.clock()
        )
        return said if said is job else replace(said, timings={**build.moments, **said.timings})

    def _save_steps(self, jobs: Sequence[Job]) -> None:
        # The disk may be full: the progress of a build may be lost, and other jobs must go on.
        with log_and_continue(_log, "jobs={} progress was not recorded", _format_names(jobs)):
            self._live_state.save(jobs=jobs)

    def note(self, job: Job) -> str:
        """Return the note for ``why``: the source of a job's environment, or the image of its hosts."""
        if job.image is not None:
            return image_pull.note(job.image, job.timings)
        if self._environment(job) is None:
            return environment.remote_note(job)
        return environment.note(job, ready=self._environments.is_ready(self._key(job)))

    def mark_used(self, job: Job) -> None:
        """Record that a job uses its environment now, if it has one."""
        if self._environment(job):
            self._environments.mark_used(self._key(job))

    def _environment(self, job: Job) -> PythonEnvironment | None:
        """Return the environment that is built on this machine for a job; None where none is."""
        wanted = environment.environment_of(job.spec)
        if wanted is None:
            return None
        capabilities = engine_capabilities.capabilities_of(self._engine_of, job.spec.engine)
        return None if capabilities.builds_environments else wanted

    def _needs_preparation(self, job: Job) -> bool:
        return not image_pull.is_available(job) if job.spec.image else self._environment(job) is not None

    def _key(self, job: Job) -> ReuseKey:
        return reuse.reuse_key(job.spec, self._user)

    def _name(self, job: Job) -> str:
        if job.spec.image:
            # One name at different times may mean different images, for different jobs.
            which = "" if job.image is None else job.image.id
            if image_pull.is_built(job):
                # The folder may change between two jobs; the tasks of an array were submitted with one content.
                which = job.spec.array.id if job.spec.array else job.id
            needs = [*job.spec.image_settings(), *([f"program of {job.spec.kind}"] if job.spec.image_program else [])]
            return " ".join([job.spec.engine, image_pull.pull_reference(job), *filter(None, [which]), *needs])
        wanted = self._environment(job)
        return "" if wanted is None else environment.environment_id(job.spec.python, wanted)

    async def settle(self) -> None:
        """Wait until every build is over; for tests and an orderly end."""
        await self._tasks.settle()

    def close(self) -> None:
        """Cancel every build; the next controller restarts them."""
        self._tasks.cancel()


def _split(jobs: Sequence[Job], image: Image | None) -> tuple[list[Job], list[tuple[SmxError, list[Job]]]]:
    """Separate the jobs that send functions or classes to an image with another Python, by their errors."""
    able: list[Job] = []
    refused: dict[str, tuple[SmxError, list[Job]]] = {}
    for job in jobs:
        error = None if image is None else _code_error(job, image)
        if error is None:
            able.append(job)
        else:
            refused.setdefault(str(error), (error, []))[1].append(job)
    return able, list(refused.values())


def _code_error(job: Job, image: Image) -> ValidationError | None:
    """Return the error of a job that sends code to another Python than its own; None if it sends none."""
    try:
        interpreter_rules.check_send(job.spec, image.python_version)
    except ValidationError as error:
        return error
    return None


def _with_start(job: Job, now: float) -> Job:
    # Remove the progress of a download for an earlier attempt.
    over = (environment.BUILT, image_pull.PULLING, image_pull.PULLED)
    timings = {name: at for name, at in job.timings.items() if name not in over}
    begun = replace(job, timings={**timings, environment.BUILDING: now}, why=_why(job))
    return transitions.remark(begun, f"{_activity(job)}.")


def _with_result(job: Job, now: float, image: Image | None, moments: Mapping[str, float], *, held: bool) -> Job:
    took = max(0.0, now - job.timings.get(environment.BUILDING, now))
    # A download that an earlier controller began has its beginning on record.
    timings = {**moments, **job.timings, environment.BUILT: now}
    if image_pull.PULLING in moments:
        timings[image_pull.PULLED] = moments.get(image_pull.PULLED, now)
    timings.pop(image_pull.GONE, None)
    built = replace(job, timings=timings, image=job.image or image)
    what = "environment" if image is None else "image"
    whom = "the jobs that it depends on" if held else "room on the engine"
    message = f"The {what} is ready after {format_duration(took)}; waiting for {whom}."
    return transitions.record_image_pulled(built, message, now)


def _format_names(jobs: Sequence[Job]) -> str:
    return jobs[0].name if len(jobs) == 1 else f"{jobs[0].name} and {len(jobs) - 1} more jobs"


def _activity(job: Job) -> str:
    if image_pull.is_built(job):
        return BUILDING_IMAGE
    return RESOLVING if job.spec.image else BUILDING


def _format_need(job: Job) -> str:
    return job.spec.build or job.spec.image or environment.format_environment(environment.environment_of(job.spec))


def _why(job: Job, step: str = "") -> Why:
    if transitions.is_pulling_image(job):
        return Why(start="none", sentence=transitions.remark_of(job))
    return Why(start="none", sentence=f"{_activity(job)} ({_format_need(job)}){': ' if step else ''}{step}.")
