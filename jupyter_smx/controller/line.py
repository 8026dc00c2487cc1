"""The line: which of the live jobs wait for hosts, in which turn, and which may not begin yet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jupyter_smx.model.status import Goal, Status, is_final
from jupyter_smx.policy.arrays import Waiter, turns
from jupyter_smx.policy.environment import is_building
from jupyter_smx.policy.order import FREE, Order, Predecessor, order_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jupyter_smx.model.array import ArrayTask
    from jupyter_smx.model.job import Job


class Line:
    """Reads the live jobs, which stand oldest first, and remembers what it made of them until they change.

    ``record`` reads a job that is not live, and ``array`` says of an array what those that come after it want to know;
    each gives None for what is not known.
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
        self._predecessors: dict[str, Predecessor] = {}
        self._turns: dict[str, list[str]] = {}
        self._places: dict[str, int] | None = None

    def changed(self, jobs: Iterable[Job]) -> None:
        """Forget what these changes of jobs made wrong."""
        self._turns, self._places = {}, None
        for job in jobs:
            if is_final(job.state):
                self._predecessors.pop(job.id, None)
                if job.spec.array is not None:
                    self._predecessors.pop(job.spec.array.id, None)

    def forget(self, ref: str) -> None:
        """Forget a job that was deleted."""
        self._predecessors.pop(ref, None)

    def order(self, job: Job) -> Order:
        """Say whether the jobs that a job comes after let it begin."""
        if not job.spec.after:
            return FREE
        return order_of([self.order_by(each) or Predecessor(name=each, status=None) for each in job.spec.after])

    def order_by(self, ref: str) -> Predecessor | None:
        """Say of a job or an array what those that come after it want to know; None when there is none of that id."""
        known = self._predecessors.get(ref)
        if known is None:
            known = self._look(ref)
            if known is not None:
                self._predecessors[ref] = known
        return known

    def held(self) -> list[Job]:
        """Give the live jobs that come after others and have no hosts, oldest first."""
        return [job for job in self._jobs.values() if job.spec.after and not job.cluster]

    def awaited_by(self, job: Job) -> list[Job]:
        """Give the live jobs that come after a job, or after the array that it is a task of, and did not begin."""
        names = {job.id} if job.spec.array is None else {job.id, job.spec.array.id}
        return [other for other in self.held() if names.intersection(other.spec.after)]

    def engines(self) -> list[str]:
        """Name the engines for which somebody waits."""
        return list(dict.fromkeys(job.spec.engine for job in self._jobs.values() if not job.cluster))

    def waiting(self, engine: str) -> list[Job]:
        """Give the jobs that wait for hosts of an engine, in their turns."""
        return [self._jobs[each] for each in self._line(engine)]

    def head(self, engine: str) -> str:
        """Give the id of the job whose turn it is; empty when nobody waits."""
        return next(iter(self._line(engine)), "")

    def ahead_of(self, job: Job) -> int:
        """Count those who come before a job, which may be a new one."""
        if job.id in self._jobs:
            line = self._line(job.spec.engine)
            return line.index(job.id) if job.id in line else len(line)
        return turns([*self._waiters(job.spec.engine), _waiter(job)], self._running()).index(job.id)

    def position(self, job: Job) -> int | None:
        """Count from 1 where a job stands in its engine's line; None when it stands in none."""
        if self._places is None:
            self._places = {
                each: number for engine in self.engines() for number, each in enumerate(self._line(engine), 1)
            }
        return self._places.get(job.id)

    def _line(self, engine: str) -> list[str]:
        found = self._turns.get(engine)
        if found is None:
            found = self._turns[engine] = turns(self._waiters(engine), self._running())
        return found

    def _waiters(self, engine: str) -> list[Waiter]:
        return [
            _waiter(job)
            for job in self._jobs.values()
            if not job.cluster and job.spec.engine == engine and self._may_stand(job)
        ]

    def _may_stand(self, job: Job) -> bool:
        # While an environment is built others pass: nobody waits for the network of somebody else.
        return self.order(job).lets_begin() and not is_building(job.timings)

    def tasks_of(self, array_id: str) -> int:
        """Count the live tasks of an array."""
        return sum(task.id == array_id for _, task in self._tasks())

    def awaits_hosts(self, array_id: str) -> bool:
        """Say whether a task of an array waits for hosts."""
        waits = (task.id == array_id and not job.cluster and job.goal is Goal.RUN for job, task in self._tasks())
        return any(waits)

    def _tasks(self) -> Iterator[tuple[Job, ArrayTask]]:
        return ((job, job.spec.array) for job in self._jobs.values() if job.spec.array is not None)

    def _running(self) -> Counter[str]:
        return Counter(task.id for job, task in self._tasks() if job.cluster)

    def _look(self, ref: str) -> Predecessor | None:
        job = self._jobs.get(ref)
        if job is not None:
            # Until it is final nobody who comes after it cares where it is.
            return Predecessor(name=job.name, status=Status.IN_PROGRESS)
        job = self._record(ref)
        if job is None:
            return self._array(ref)
        return Predecessor(name=job.name, status=job.status(), reason=job.failure_reason)


def _waiter(job: Job) -> Waiter:
    task = job.spec.array
    if task is None:
        return Waiter(id=job.id)
    return Waiter(id=job.id, array=task.id, max_concurrent=task.max_concurrent)
