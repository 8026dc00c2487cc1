"""A crowd: while many wishes come at once, taking them in goes before calling the next of a long line.

Whoever hands in a thousand jobs waits until the last is taken, and each job that begins meanwhile takes the same cores.
What is put off is what stands in a line anyhow, and by a tenth of a second at most.
"""

from __future__ import annotations

BURST_SIZE = 16
"""Jobs that stand in line, from which on they are many."""
DEBOUNCE = 0.01
"""Seconds without a wish, after which no more is expected."""
MAX_DELAY = 0.1
"""Seconds for which the line waits at most, however many wishes come."""


def next_schedule_at(waiting: int, wished_at: float, called_at: float) -> float:
    """Give the moment from which on the line may be called, in steady seconds.

    ``waiting`` counts who stands in it; ``wished_at`` is when the last wish came, ``called_at`` when it was called.
    """
    if waiting < BURST_SIZE:
        return called_at
    return min(wished_at + DEBOUNCE, called_at + MAX_DELAY)
