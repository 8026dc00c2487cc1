"""The order of waiting jobs: first come, first served, where an array counts as one job.

The task of an array stands behind as many turns as tasks of its array run or wait before it, so:

* jobs that are no tasks are served strictly in the order of their submission;
* a long array delays a later job by one turn, not by all its tasks;
* arrays that wait at the same time run about equally many tasks each;
* none starves: an array without running tasks stands in the first turn, and there by age.

A first job that finds no room holds up the others of the engine, so that wide jobs get their hosts.

While many submissions arrive at once, accepting them comes before placing the next job of a long queue: a client that
submits a thousand jobs waits for the last one, and each job that starts meanwhile takes the same cores. Only jobs that
wait anyway are delayed, and by ``MAX_DELAY`` at most.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BURST_SIZE = 16
"""Waiting jobs from which on the queue is long."""
DEBOUNCE = 0.01
"""Seconds without a submission, after which no more is expected."""
MAX_DELAY = 0.1
"""Seconds by which a long queue is delayed at most, however many submissions arrive."""
EXACT_POSITIONS = 20
"""Positions at the front of a queue that lists show exactly; further back a tenth more or less is near enough."""


class QueueEntry(NamedTuple):
    """A job that may have hosts; ``age`` is smaller the earlier it came.

    ``array`` is its array's id, ``max_concurrent`` how many of that may run (0: all).
    """

    age: int
    id: str
    array: str = ""
    max_concurrent: int = 0


class FairQueue:
    """The jobs that wait for hosts of one engine, each with its turn.

    Tasks beyond their array's limit have no turn. The cost of a query grows with the number of waiting arrays, not
    with the number of jobs, of which there may be ten thousand.
    """

    def __init__(self) -> None:
        self._jobs: list[QueueEntry] = []
        self._arrays: dict[str, _Tasks] = {}
        self._order: list[str] | None = None
        """The ids in order, until a job comes, leaves or starts."""

    def __len__(self) -> int:
        """Count the jobs that have a turn."""
        return len(self._jobs) + sum(len(tasks) for tasks in self._arrays.values())

    def add(self, waiter: QueueEntry) -> None:
        """Add a waiting job to the queue."""
        self._order = None
        insort(self._tasks(waiter.array).waiting if waiter.array else self._jobs, waiter)

    def remove(self, waiter: QueueEntry) -> None:
        """Remove a waiting job from the queue."""
        self._order = None
        row = self._tasks(waiter.array).waiting if waiter.array else self._jobs
        del row[bisect_left(row, waiter)]
        self._drop_if_empty(waiter.array)

    def add_running(self, array: str, change: int) -> None:
        """Count so many more tasks of an array that have hosts."""
        self._order = None
        self._tasks(array).running += change
        self._drop_if_empty(array)

    def count_ahead(self, waiter: QueueEntry) -> int | None:
        """Count the entries before one, which may be new; None if the array's limit is reached."""
        turn = self._tasks(waiter.array).turn_of(waiter) if waiter.array else 0
        self._drop_if_empty(waiter.array)
        if waiter.max_concurrent and turn >= waiter.max_concurrent:
            return None
        alone = len(self._jobs) if turn else bisect_left(self._jobs, waiter)
        return alone + sum(tasks.count_before(turn, waiter.age) for tasks in self._arrays.values())

    def peek(self) -> tuple[int, QueueEntry] | None:
        """Return the next entry and its turn; None if the queue is empty."""
        firsts = [tasks.row(0) for tasks in self._arrays.values() if len(tasks)]
        firsts += [(0, waiter) for waiter in self._jobs[:1]]
        return min(firsts, default=None)

    def ordered_ids(self) -> Sequence[str]:
        """Return the ids of all jobs that have a turn, in order; they are sorted once until the queue changes."""
        if self._order is None:
            self._order = self._sorted_ids()
        return self._order

    def _sorted_ids(self) -> list[str]:
        rows = [(0, waiter) for waiter in self._jobs]
        for tasks in self._arrays.values():
            rows += [tasks.row(number) for number in range(len(tasks))]
        return [waiter.id for _, waiter in sorted(rows)]

    def _tasks(self, array: str) -> _Tasks:
        return self._arrays.setdefault(array, _Tasks())

    def _drop_if_empty(self, array: str) -> None:
        tasks = self._arrays.get(array)
        if tasks is not None and not tasks.running and not tasks.waiting:
            del self._arrays[array]


class _Tasks:
    """The tasks of one array: the number with hosts, and those that wait, oldest first."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: list[QueueEntry] = []

    def __len__(self) -> int:
        """Count the entries that the limits of arrays allow."""
        limit = self.waiting[0].max_concurrent if self.waiting else 0
        return min(len(self.waiting), max(0, limit - self.running)) if limit else len(self.waiting)

    def row(self, number: int) -> tuple[int, QueueEntry]:
        return self.running + number, self.waiting[number]

    def turn_of(self, waiter: QueueEntry) -> int:
        return self.running + bisect_left(self.waiting, waiter)

    def count_before(self, turn: int, age: int) -> int:
        """Count the tasks before a turn, or in the same turn by age."""
        number = turn - self.running
        if number < 0:
            return 0
        if number >= len(self):
            return len(self)
        return number + (self.waiting[number].age < age)


def outdated_positions(queue: Sequence[str], reported: Mapping[str, int], limit: int) -> list[str]:
    """Name the jobs of a queue whose reported position is noticeably another one, the first of the queue first.

    A job that starts moves all jobs behind it, of which there may be ten thousand, so at most ``limit`` are named.
    """
    found = (job for position, job in enumerate(queue, 1) if _is_outdated(reported.get(job), position))
    return list(islice(found, limit))


def _is_outdated(reported: int | None, position: int) -> bool:
    tolerance = position // 10 if position > EXACT_POSITIONS else 0
    return reported is None or abs(reported - position) > tolerance


def next_schedule_at(waiting: int, submitted_at: float, scheduled_at: float) -> float:
    """Return the moment from which on the queue may be scheduled, in monotonic seconds.

    ``waiting`` counts its jobs; ``submitted_at`` is when the last submission arrived, ``scheduled_at`` when the queue
    was scheduled last.
    """
    if waiting < BURST_SIZE:
        return scheduled_at
    return min(submitted_at + DEBOUNCE, scheduled_at + MAX_DELAY)
