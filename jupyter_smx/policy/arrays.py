"""Whose turn it is among those that wait for hosts: first come, first served, and an array counts as one who came.

The task of an array stands behind as many turns as tasks of its array run or wait before it, so:

* jobs that are no tasks are served strictly in the order in which they came;
* a long array delays a job that came later by one turn, not by all its tasks;
* arrays that wait at the same time run about equally many tasks each;
* nobody starves: whoever has nothing running stands in the first turn, and there by age.

Whoever is first and finds no room holds up the others of the engine, so that wide jobs get their hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Waiter(Struct, frozen=True, kw_only=True):
    """A job that may have hosts; ``array`` is its array's id, ``max_concurrent`` how many of that may run (0: all)."""

    id: str
    array: str = ""
    max_concurrent: int = 0


def turns(waiters: Iterable[Waiter], running: Mapping[str, int]) -> list[str]:
    """Put those who wait, given oldest first, into their turns; tasks beyond their array's limit stand in none.

    ``running`` counts the tasks of each array that have hosts.
    """
    taken: dict[str, int] = {}
    rows: list[tuple[int, int, str]] = []
    for number, waiter in enumerate(waiters):
        turn = 0
        if waiter.array:
            turn = taken.get(waiter.array, running.get(waiter.array, 0))
            taken[waiter.array] = turn + 1
        if not waiter.max_concurrent or turn < waiter.max_concurrent:
            rows.append((turn, number, waiter.id))
    return [job for _, _, job in sorted(rows)]
