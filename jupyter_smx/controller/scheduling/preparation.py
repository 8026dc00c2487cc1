"""Prepares jobs for the line: has environments built and images found, and says how far that is; others pass."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError, alone
from jupyter_smx.controller.unexpected import unforeseen
from jupyter_smx.model.errors import RefusedError, SmxError
from jupyter_smx.model.results.start_reason import Why
from jupyter_smx.model.status import ENDING
from jupyter_smx.policy.lifecycle import environment, transitions
from jupyter_smx.policy.lifecycle import image_pull as downloads
from jupyter_smx.policy.scheduling import reuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jupyter_smx.controller.environments.cache import Environments
    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.engines.base import Engine, Step
    from jupyter_smx.model.records.cluster import ReuseKey
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.image import Image

_log = logging.getLogger(__name__)

BEGUN = "Building the environment"
LOOKING = "Looking at the image"


class Crew(Protocol):
    """Who is told what became of an environment, or an image, once for all the jobs that waited for it."""

    def environment_ready(self) -> None:
        """Learn that jobs may stand in line which could not before."""

    def image_refused(self, jobs: Sequence[Job], error: SmxError) -> None:
        """Learn that no hosts can be made of the image that some jobs name."""

    def environment_failed(self, jobs: Sequence[Job], error: SmxError) -> None:
        """Learn that the requirements of some jobs cannot be had."""

    def fenced(self) -> None:
        """Learn that another controller owns the records; this one ends."""


class _Build:
    """An environment or an image under way, the ids of the jobs that wait for it, and how far it is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.jobs: dict[str, None] = {}
        self.step = ""
        self.heard = False
        """An engine has said something of an image, so it was there."""
        self.moments: dict[str, float] = {}
        """When the download of an image began, and when it was over."""
        self.task: asyncio.Task[None] | None = None
        self._clock = clock

    def say(self, step: str) -> None:
        """Learn how far it is."""
        self.step = step

    def hear(self, step: Step) -> None:
        """Learn how far it is to an image."""
        self.step, self.heard = step.words, True
        if step.downloads:
            self.moments.setdefault(downloads.PULLING, self._clock())
            self.moments.pop(downloads.PULLED, None)
        elif self.moments:
            self.moments.setdefault(downloads.PULLED, self._clock())

    @property
    def downloads(self) -> bool:
        """Say whether an image is downloaded now."""
        return downloads.PULLING in self.moments and downloads.PULLED not in self.moments

    def cancel(self) -> None:
        """Want it no more."""
        if self.task is not None:
            self.task.cancel()


class Preparation:
    """The jobs that wait for an environment or an image; a job is on record as building from its first step here on.

    Hosts of an image run what is in it, so no job waits for both. What the name of an image means may change at any
    time: the engine is asked for each job as soon as it is there, also if it comes after others, and what it said then
    is on the job's record for all its attempts. An environment is built when its turn comes.

    All tasks of an array want the same one, and there may be ten thousand of them: whatever happens to an
    environment is one write for all who wait for it.
    """

    def __init__(
        self, books: Books, environments: Environments, engine_of: Callable[[str], Engine], crew: Crew, user: str
    ) -> None:
        self._books = books
        self._environments = environments
        self._engine_of = engine_of
        self._crew = crew
        self._user = user
        self._builds: dict[str, _Build] = {}
        self._waits: dict[str, str] = {}
        """Which environment, or image, a job waits for."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_over(self, job: Job) -> bool:
        """Say whether a job may stand in line: it wants nothing, or has it and that is on record."""
        if job.spec.image:
            return downloads.is_had(job)
        if not job.spec.requirements:
            return True
        return not environment.is_building(job.timings) and self._environments.is_ready(self._key(job))

    def begin(self, job: Job) -> None:
        """Have a job's environment built or its image found, which may be under way; the first step of such a job.

        Others that want the same, and wait for nothing else, begin with it.
        """
        if job.id in self._waits:
            return
        jobs = [job]
        if not environment.is_building(job.timings):
            jobs = self._write_down([job, *self._others(job)])
        for each in jobs:
            self._join(each)

    def _others(self, job: Job) -> Iterator[Job]:
        if job.id not in self._books.jobs:
            return  # It is being admitted. Who was admitted before it has begun, or does when its turn comes.
        name = self._name(job)
        for other in self._books.jobs.values():
            if other.id != job.id and self._lacks(other, name):
                yield other

    def _lacks(self, job: Job, name: str) -> bool:
        if not _wants(job) or job.cluster or job.goal in ENDING or environment.is_building(job.timings):
            return False
        return self._name(job) == name and (bool(job.spec.image) or self._may_begin(job))

    def _may_begin(self, job: Job) -> bool:
        return self._books.line.order(job).lets_begin()

    def _write_down(self, jobs: Iterable[Job]) -> list[Job]:
        now = self._books.clock()
        begun = [_begun(job, now) for job in jobs]
        self._books.save(jobs=begun)
        return begun

    def _join(self, job: Job) -> None:
        name = self._waits[job.id] = self._name(job)
        build = self._builds.get(name)
        if build is None:
            build = self._builds[name] = _Build(self._books.clock)
            build.task = asyncio.create_task(self._provide(name, build, job), name=f"prepare {name}")
            self._tasks.add(build.task)
            build.task.add_done_callback(self._tasks.discard)
        build.jobs[job.id] = None

    async def _provide(self, name: str, build: _Build, job: Job) -> None:
        trouble, image = None, None
        try:
            with unforeseen(_log, f"{_doing(job)} ({_wanted(job)})"):
                image = await self._obtain(job, build)
        except SmxError as error:
            trouble = error
        finally:
            # Whoever is cancelled has been replaced already, if somebody wants the same again.
            if self._builds.get(name) is build:
                self._forget(name)
        try:
            self._came_out(build, job, image, trouble)
        except FencedError:
            self._crew.fenced()
            raise
        except SmxError as error:
            # The records cannot be written now: the next look begins again, and finds what is ready.
            _log.warning("What %d jobs waited for: %s", len(build.jobs), error)

    async def _obtain(self, job: Job, build: _Build) -> Image | None:
        spec = job.spec
        if not spec.image:
            await self._environments.provide(self._key(job), build.say)
            return None
        found = await self._find(self._engine_of(spec.engine), downloads.source(job), build)
        return found if job.image is None else downloads.same(job.image, found)

    async def _find(self, engine: Engine, name: str, build: _Build) -> Image:
        """Ask for an image, and again after a while where its registry is away."""
        for seconds in downloads.PAUSES:
            found = await _try_to_find(engine, name, build, seconds)
            if found is not None:
                return found
        return await engine.pin(name, build.hear)

    def _forget(self, name: str) -> None:
        for job_id in self._builds.pop(name).jobs:
            del self._waits[job_id]

    def _came_out(self, build: _Build, one: Job, image: Image | None, trouble: SmxError | None) -> None:
        jobs = self._waiting(build)
        if not jobs:
            return
        if trouble is None:
            self._ready(jobs, one, image, build)
        elif one.spec.image:
            _log.warning("The image of %s: %s", _named(jobs), trouble)
            self._crew.image_refused(jobs, trouble)
        else:
            _log.warning("The environment of %s: %s", _named(jobs), trouble)
            self._crew.environment_failed(jobs, trouble)

    def _waiting(self, build: _Build) -> list[Job]:
        found = (self._books.jobs.get(job_id) for job_id in build.jobs)
        return [job for job in found if job is not None]

    def _ready(self, jobs: Sequence[Job], one: Job, image: Image | None, build: _Build) -> None:
        now = self._books.clock()
        built = [_built(job, now, image, build.moments, held=not self._may_begin(job)) for job in jobs]
        self._books.save(jobs=built)
        if image is None:
            self._environments.used(self._key(one))
            self._environments.prune(self._needed())
        self._crew.environment_ready()

    def _needed(self) -> list[ReuseKey]:
        wanted = [self._key(job) for job in self._books.jobs.values() if environment.environment_of(job.spec)]
        return [*wanted, *(cluster.key for cluster in self._books.clusters.values())]

    def drop(self, job_id: str) -> None:
        """Learn that a job ends; when it was the last one that wanted an environment its build ends, too."""
        name = self._waits.pop(job_id, None)
        if name is None:
            return
        build = self._builds[name]
        del build.jobs[job_id]
        if not build.jobs:
            del self._builds[name]
            build.cancel()

    def look(self) -> None:
        """Begin again what an earlier controller had begun, and write down how far everything is."""
        for job in [*self._books.jobs.values()]:
            if not job.cluster and environment.is_building(job.timings):
                self.begin(job)
        news = [job for build in self._builds.values() if build.step for job in self._told(build)]
        if news:
            self._tell(news)

    def _told(self, build: _Build) -> Iterator[Job]:
        """Give the jobs whose records say how far it is, where they do not say it yet; of an array, its first."""
        speakers: dict[str, Job] = {}
        for job in self._waiting(build):
            speakers.setdefault(job.spec.array.id if job.spec.array else job.id, job)
        for job in speakers.values():
            said = self._said(job, build)
            if said is not job:
                yield replace(said, why=_why(said, build.step))

    def _said(self, job: Job, build: _Build) -> Job:
        if not build.downloads:
            return transitions.remark(job, f"{_doing(job)}: {build.step}.")
        said = transitions.fetch(job, f"{downloads.doing(job.spec.image)}: {build.step}.", self._books.clock())
        return said if said is job else replace(said, timings={**build.moments, **said.timings})

    def _tell(self, jobs: Sequence[Job]) -> None:
        # A full disk, say: how far a build is need not be known, and nobody else may suffer for it.
        with alone(_log, "How far what {} wait for is, is not written down", _named(jobs)):
            self._books.save(jobs=jobs)

    def note(self, job: Job) -> str:
        """Say for ``why`` where a job's environment comes from, or of what its hosts are made."""
        if job.image is not None:
            return downloads.note(job.image, job.timings)
        if not job.spec.requirements:
            return ""
        return environment.note(job, ready=self._environments.is_ready(self._key(job)))

    def used(self, job: Job) -> None:
        """Remember that a job's environment is needed now, where it wants one."""
        if environment.environment_of(job.spec):
            self._environments.used(self._key(job))

    def _key(self, job: Job) -> ReuseKey:
        return reuse.reuse_key(job.spec, self._user)

    def _name(self, job: Job) -> str:
        if job.spec.image:
            # What one name meant at different times are different things, and so are the jobs that wait for them.
            which = "" if job.image is None else job.image.id
            return f"{job.spec.engine} {downloads.source(job)} {which}".rstrip()
        wanted = environment.environment_of(job.spec)
        return "" if wanted is None else environment.identity(job.spec.python, wanted)

    async def settle(self) -> None:
        """Wait until every build is over; for tests and an orderly end."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """End every build; the next controller begins them anew."""
        for task in self._tasks:
            task.cancel()


async def _try_to_find(engine: Engine, name: str, build: _Build, seconds: float) -> Image | None:
    """Ask for an image; None where it may be asked for again after so many ``seconds``, which were waited."""
    try:
        return await engine.pin(name, build.hear)
    except SmxError as error:
        # A daemon that goes away in the middle of it comes back as a registry does.
        if not error.transient or not (isinstance(error, RefusedError) or build.heard):
            raise
        build.say(downloads.again(error, seconds))
    await asyncio.sleep(seconds)
    return None


def _begun(job: Job, now: float) -> Job:
    # Of a download for an earlier attempt nothing is said any more.
    over = (environment.BUILT, downloads.PULLING, downloads.PULLED)
    timings = {name: at for name, at in job.timings.items() if name not in over}
    begun = replace(job, timings={**timings, environment.BUILDING: now}, why=_why(job))
    return transitions.remark(begun, f"{_doing(job)}.")


def _built(job: Job, now: float, image: Image | None, moments: Mapping[str, float], *, held: bool) -> Job:
    took = max(0.0, now - job.timings.get(environment.BUILDING, now))
    # A download that an earlier controller began has its beginning on record.
    timings = {**moments, **job.timings, environment.BUILT: now}
    if downloads.PULLING in moments:
        timings[downloads.PULLED] = moments.get(downloads.PULLED, now)
    timings.pop(downloads.GONE, None)
    built = replace(job, timings=timings, image=job.image or image)
    what = "environment" if image is None else "image"
    whom = "the jobs that it comes after" if held else "room on the engine"
    return transitions.fetched(built, f"The {what} is ready after {took:.1f} s; waiting for {whom}.", now)


def _named(jobs: Sequence[Job]) -> str:
    return jobs[0].name if len(jobs) == 1 else f"{jobs[0].name} and {len(jobs) - 1} more jobs"


def _wants(job: Job) -> bool:
    return not downloads.is_had(job) if job.spec.image else bool(job.spec.requirements)


def _doing(job: Job) -> str:
    return LOOKING if job.spec.image else BEGUN


def _wanted(job: Job) -> str:
    return job.spec.image or environment.words(environment.environment_of(job.spec))


def _why(job: Job, step: str = "") -> Why:
    if transitions.is_fetching(job):
        return Why(start="none", sentence=transitions.remark_of(job))
    return Why(start="none", sentence=f"{_doing(job)} ({_wanted(job)}){': ' if step else ''}{step}.")
