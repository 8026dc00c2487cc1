"""The job queue: which live jobs wait for hosts, in which order, and which cannot start yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.model.status import TERMINAL_GOALS, Status, is_final
from jupyter_smx.policy.lifecycle.dependencies import (
    NO_DEPENDENCIES,
    DependencyState,
    Predecessor,
    resolve_dependencies,
)
from jupyter_smx.policy.lifecycle.environment import is_building
from jupyter_smx.policy.scheduling.fair_queue import FairQueue, QueueEntry, outdated_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from jupyter_smx.model.records.job import Job


class JobQueue:
    """Reads the live jobs, oldest first, and updates its counts and orders with each change.

    ``record`` reads a job that is not live, and ``array`` returns the state of an array for its dependents; each
    returns None for an unknown id.
    """

    def __init__(
        self,
        jobs: Mapping[str, Job],
        record: Callable[[str], Job | None],
        array: Callable[[str], Predecessor | None],
    ) -> None:
        self._jobs = jobs
        self._record = record
        self._array = array
        self._ages = count()
        self._slots: dict[str, _QueueSlot] = {}
        self._queues: defaultdict[str, FairQueue] = defaultdict(FairQueue)
        self._tasks: Counter[str] = Counter()
        self._waiting_tasks: Counter[str] = Counter()
        self._dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._predecessors: dict[str, Predecessor] = {}
        """Only those that have dependents."""
        self.update(jobs.values())

    def update(self, jobs: Iterable[Job]) -> None:
        """Update the queue for new or changed jobs."""
        changed = dict.fromkeys(job.id for job in jobs)
        for job in jobs:
            if is_final(job.state):
                for name in _dependency_refs(job):
                    self._predecessors.pop(name, None)
                    changed.update(self._dependents.get(name, {}))
        for job_id in changed:
            age = self._leave(job_id)
            if job_id in self._jobs:
                self._enter(self._jobs[job_id], next(self._ages) if age is None else age)

    @contextmanager
    def preview(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Temporarily enqueue jobs as they will be after the write; restore the queue at the end of the block."""
        before: list[tuple[Job, _QueueSlot | None]] = []
        try:
            for job in jobs:
                if not job.cluster and not is_final(job.state):
                    before.append((job, self._slots.get(job.id)))
                    age = self._leave(job.id)
                    self._enter(job, next(self._ages) if age is None else age)
            yield
        finally:
            for job, place in reversed(before):
                self._leave(job.id)
                if place is not None:
                    self._enter(place.job, place.age)

    def dependency_status(self, job: Job) -> DependencyState:
        """Return the state of a job's dependencies."""
        if not job.spec.after:
            return NO_DEPENDENCIES
        return resolve_dependencies(
            [self.predecessor(each) or Predecessor(name=each, status=None) for each in job.spec.after]
        )

    def predecessor(self, ref: str) -> Predecessor | None:
        """Return the state of a job or an array for its dependents; None if the id is unknown."""
        if ref not in self._dependents:
            return self._find_predecessor(ref)
        known = self._predecessors.get(ref)
        if known is None:
            known = self._find_predecessor(ref)
            if known is not None:
                self._predecessors[ref] = known
        return known

    def blocked_jobs(self) -> list[Job]:
        """Return the live jobs with dependencies and without hosts, oldest first; some may be queued by now."""
        ids = {each for followers in self._dependents.values() for each in followers}
        return [self._jobs[each] for each in sorted(ids, key=self._age_of)]

    def dependents(self, job: Job) -> list[Job]:
        """Return the live jobs that depend on a job, or on the array that it is a task of.

        Also those that have hosts: a job that loses them enters the queue again, and checks its dependencies once more.
        """
        names = _dependency_refs(job)
        return [other for other in self._jobs.values() if not set(other.spec.after).isdisjoint(names)]

    def __len__(self) -> int:
        """Count the jobs that wait for hosts."""
        return sum(map(len, self._queues.values()))

    def is_queued(self, job: Job) -> bool:
        """Return True if a job only waits for its turn."""
        place = self._slots.get(job.id)
        return place is not None and place.entry is not None

    def engines(self) -> list[str]:
        """Return the engines that have queued jobs."""
        return [engine for engine, queue in self._queues.items() if len(queue)]

    def next_engine(self, full: Container[str]) -> str:
        """Return the engine of the job to schedule next, ignoring the engines in ``full``; "" if no job is queued.

        Engines share a machine, so all their queues have one order.
        """
        firsts = [(queue.peek(), engine) for engine, queue in self._queues.items() if engine not in full]
        return min(((first, engine) for first, engine in firsts if first is not None), default=((), ""))[1]

    def queued_jobs(self, engine: str) -> list[Job]:
        """Return the jobs that wait for hosts of an engine, in the order of the queue."""
        return [self._jobs[each] for each in self._queues[engine].ordered_ids()]

    def head(self, engine: str) -> str:
        """Return the id of the job to schedule next; "" if no job is queued."""
        first = self._queues[engine].peek()
        return "" if first is None else first[1].id

    def ahead_of(self, job: Job) -> int:
        """Count the jobs before a job, which may be a new one."""
        place, queue = self._slots.get(job.id), self._queues[job.spec.engine]
        waiter = _queue_entry(job, next(self._ages)) if place is None else place.entry
        if waiter is None:
            return len(queue)
        ahead = queue.count_ahead(waiter)
        # None: the array's max_concurrent is reached, so at least one task is running.
        return max(1, len(queue)) if ahead is None else ahead

    def position(self, job: Job) -> int | None:
        """Return a job's position in its engine's queue, from 1; None if it has none."""
        place = self._slots.get(job.id)
        if place is None or place.entry is None:
            return None
        ahead = self._queues[job.spec.engine].count_ahead(place.entry)
        return None if ahead is None else ahead + 1

    def positions(self) -> dict[str, int]:
        """Return the positions of all queued jobs by their ids."""
        queues = (queue.ordered_ids() for queue in self._queues.values())
        return {job_id: position for queue in queues for position, job_id in enumerate(queue, 1)}

    def outdated_jobs(self, reported: Mapping[str, int], limit: int) -> list[Job]:
        """Return at most ``limit`` jobs whose reported position is noticeably another one than they have now."""
        found: list[str] = []
        for queue in self._queues.values():
            if len(queue):
                found += outdated_positions(queue.ordered_ids(), reported, limit - len(found))
        return [self._jobs[each] for each in found]

    def task_count(self, array_id: str) -> int:
        """Count the live tasks of an array."""
        return self._tasks[array_id]

    def has_queued_tasks(self, array_id: str) -> bool:
        """Return True if a task of an array waits for hosts."""
        return self._waiting_tasks[array_id] > 0

    def _age_of(self, job_id: str) -> int:
        return self._slots[job_id].age

    def _enter(self, job: Job, age: int) -> None:
        if not job.cluster:
            for ref in job.spec.after:
                self._dependents[ref][job.id] = None
        place = _QueueSlot(age, job, _queue_entry(job, age) if self._should_queue(job) else None)
        self._slots[job.id] = place
        if place.entry is not None:
            self._queues[job.spec.engine].add(place.entry)
        self._count(job, 1)

    def _leave(self, job_id: str) -> int | None:
        """Undo what ``_enter`` did for a job as it was then, and give its age."""
        place = self._slots.pop(job_id, None)
        if place is None:
            return None
        for ref in place.job.spec.after:
            self._dependents[ref].pop(job_id, None)
            if not self._dependents[ref]:
                del self._dependents[ref]
                self._predecessors.pop(ref, None)
        if place.entry is not None:
            self._queues[place.job.spec.engine].remove(place.entry)
        self._count(place.job, -1)
        return place.age

    def _count(self, job: Job, change: int) -> None:
        task = job.spec.array
        if task is None:
            return
        self._tasks[task.id] += change
        if job.cluster:
            self._queues[job.spec.engine].add_running(task.id, change)
        elif job.goal not in TERMINAL_GOALS:
            self._waiting_tasks[task.id] += change
        for counter in (self._tasks, self._waiting_tasks):
            if not counter[task.id]:
                del counter[task.id]

    def _should_queue(self, job: Job) -> bool:
        # While an environment is built others pass: no job waits for the download of another one.
        return not job.cluster and not is_building(job.timings) and self.dependency_status(job).is_satisfied()

    def _find_predecessor(self, ref: str) -> Predecessor | None:
        job = self._jobs.get(ref)
        if job is not None:
            # For jobs that depend on it, all states before the final one are the same.
            return Predecessor(name=job.name, status=Status.IN_PROGRESS)
        job = self._record(ref)
        if job is None:
            return self._array(ref)
        return Predecessor(name=job.name, status=job.status(), reason=job.failure_cause())


class _QueueSlot(NamedTuple):
    """Position of a job at the last update; without ``waiter`` it is in no queue."""

    age: int
    job: Job
    entry: QueueEntry | None


def _dependency_refs(job: Job) -> tuple[str, ...]:
    """Return the ids by which dependents may name a job."""
    return (job.id,) if job.spec.array is None else (job.id, job.spec.array.id)


def _queue_entry(job: Job, age: int) -> QueueEntry:
    task = job.spec.array
    if task is None:
        return QueueEntry(age, job.id)
    return QueueEntry(age, job.id, task.id, task.max_concurrent)
