"""Prepares jobs for the line: has their environments built, says how far that is, and lets nobody else wait for it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from jupyter_smx.controller.fencing import FencedError
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.why import Why
from jupyter_smx.policy import environment, reuse, transitions

if TYPE_CHECKING:
    from jupyter_smx.controller.books import Books
    from jupyter_smx.controller.environments import Environments
    from jupyter_smx.model.cluster import ReuseKey
    from jupyter_smx.model.job import Job

_log = logging.getLogger(__name__)

BEGUN = "Building the environment"


class Crew(Protocol):
    """Who is told what became of a job's environment."""

    def environment_ready(self, job: Job) -> None:
        """Learn that a job may stand in line."""

    def environment_failed(self, job: Job, error: SmxError) -> None:
        """Learn that a job's requirements cannot be had."""

    def fenced(self) -> None:
        """Learn that another controller owns the records; this one ends."""


class Preparation:
    """The jobs that wait for an environment; a job is on record as building from its first step here to its last."""

    def __init__(self, books: Books, environments: Environments, crew: Crew, user: str) -> None:
        self._books = books
        self._environments = environments
        self._crew = crew
        self._user = user
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._steps: dict[str, str] = {}

    def is_over(self, job: Job) -> bool:
        """Say whether a job may stand in line: it wants no environment, or has it and that is on record."""
        if not job.spec.requirements:
            return True
        return not environment.is_building(job.timings) and self._environments.is_ready(self._key(job))

    def begin(self, job: Job) -> None:
        """Have a job's environment built, which may be under way for another one; the first step of such a job."""
        if job.id in self._tasks:
            return
        if not environment.is_building(job.timings):
            job = self._write_down(job)
        task = asyncio.create_task(self._prepare(job.id, self._key(job)), name=f"environment for {job.id}")
        self._tasks[job.id] = task
        task.add_done_callback(partial(self._over, job.id))

    def _write_down(self, job: Job) -> Job:
        now = self._books.clock()
        timings = {name: at for name, at in job.timings.items() if name != environment.BUILT}
        begun = replace(
            job,
            timings={**timings, environment.BUILDING: now},
            why=_why(job),
        )
        begun = transitions.remark(begun, f"{BEGUN}.")
        self._books.save(jobs=[begun])
        return begun

    async def _prepare(self, job_id: str, key: ReuseKey) -> None:
        trouble = None
        try:
            await self._environments.provide(key, partial(self._steps.__setitem__, job_id))
        except SmxError as error:
            trouble = error
        try:
            self._came_out(job_id, key, trouble)
        except FencedError:
            self._crew.fenced()
            raise
        except SmxError as error:
            # The records cannot be written now: the next look begins again, and finds what is ready.
            _log.warning("The environment of job %s: %s", job_id, error)

    def _came_out(self, job_id: str, key: ReuseKey, trouble: SmxError | None) -> None:
        job = self._books.jobs.get(job_id)
        if job is None:
            return
        if trouble is None:
            self._ready(job, key)
        else:
            _log.warning("The environment of job %s: %s", job.name, trouble)
            self._crew.environment_failed(job, trouble)

    def _ready(self, job: Job, key: ReuseKey) -> None:
        now = self._books.clock()
        took = max(0.0, now - job.timings.get(environment.BUILDING, now))
        built = replace(job, timings={**job.timings, environment.BUILT: now})
        built = transitions.remark(
            built, f"The environment is ready after {took:.1f} s; waiting for room on the engine."
        )
        self._books.save(jobs=[built])
        self._environments.used(key)
        self._environments.prune(self._needed())
        self._crew.environment_ready(built)

    def _needed(self) -> list[ReuseKey]:
        wanted = [self._key(job) for job in self._books.jobs.values() if job.spec.requirements]
        return [*wanted, *(cluster.key for cluster in self._books.clusters.values())]

    def _over(self, job_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(job_id) is task:
            del self._tasks[job_id]
            self._steps.pop(job_id, None)

    def drop(self, job_id: str) -> None:
        """Learn that a job ends; when it was the last one that wanted an environment its build ends, too."""
        task = self._tasks.get(job_id)
        if task is not None:
            task.cancel()

    def look(self) -> None:
        """Begin again what an earlier controller had begun, and write down how far everything is."""
        for job in [*self._books.jobs.values()]:
            if not job.cluster and environment.is_building(job.timings):
                self.begin(job)
        for job_id, step in [*self._steps.items()]:
            waiting = self._books.jobs.get(job_id)
            if waiting is not None and not waiting.cluster:
                said = transitions.remark(waiting, f"{BEGUN}: {step}.")
                if said is not waiting:
                    self._tell(replace(said, why=_why(said, step)))

    def _tell(self, job: Job) -> None:
        try:
            self._books.save(jobs=[job])
        except FencedError:
            raise
        except SmxError as error:
            # A full disk, say: how far a build is need not be known, and nobody else may suffer for it.
            _log.warning("How far the environment of job %s is, is not written down: %s", job.name, error)

    def note(self, job: Job) -> str:
        """Say for ``why`` where a job's environment comes from, and remember that it is wanted now."""
        if not job.spec.requirements:
            return ""
        key = self._key(job)
        self._environments.used(key)
        return environment.note(job, ready=self._environments.is_ready(key))

    def _key(self, job: Job) -> ReuseKey:
        return reuse.reuse_key(job.spec, self._user)

    async def settle(self) -> None:
        """Wait until every build is over; for tests and an orderly end."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def close(self) -> None:
        """End every build; the next controller begins them anew."""
        for task in self._tasks.values():
            task.cancel()


def _why(job: Job, step: str = "") -> Why:
    words = environment.words(environment.environment_of(job.spec))
    return Why(start="none", sentence=f"{BEGUN} ({words}){': ' if step else ''}{step}.")
