"""Ask Slurm for all jobs of the user at once, and share the answer: a scheduler serves many people."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_smx.engines.slurm import parsers, submission

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from jupyter_smx.engines.slurm.parsers import QueueRow

    Queue = Mapping[str, Mapping[str, list[QueueRow]]]
    """Rows by the name of the job and by its id."""

BURST = 100
"""Questions that may follow one another at once; a start and its release take about ten."""
SPACING = 5.0
"""Seconds between two questions where there were many, whatever number of clusters begin or end."""


class QueueWatch:
    """Holds the last answer of ``squeue``. ``ask`` runs it, ``clock`` is monotonic.

    A question that is under way is shared by all that need an answer which began after they came; for others another
    one follows it. So there are never two at once.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, str]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._began_at = float("-inf")
        self._queue: Queue = {}
        self._left = float(BURST)
        self._counted_at = clock()
        self.questions = 0
        """Number of times that ``squeue`` was run."""

    def age(self) -> float:
        """Return the seconds since the question of the last answer began."""
        return self._clock() - self._began_at

    def spacing(self) -> float:
        """Return the least number of seconds that a caller waits before its next look: 0 unless there were many."""
        return SPACING if self._questions_left() < 1.0 else 0.0

    def _questions_left(self) -> float:
        now = self._clock()
        self._left = min(float(BURST), self._left + (now - self._counted_at) / SPACING)
        self._counted_at = now
        return self._left

    async def look(self, oldest: float = 0.0) -> Queue:
        """Return an answer that is at most ``oldest`` seconds old.

        :raises UnavailableError: Slurm does not answer.
        """
        wanted_since = self._clock() - oldest
        async with self._lock:
            if self._began_at < wanted_since:
                began_at = self._clock()
                self.questions += 1
                self._left = max(0.0, self._questions_left() - 1.0)
                text = await self._ask()
                rows = parsers.parse_queue(text, submission.NAME_PREFIX)
                self._began_at, self._queue = began_at, parsers.jobs_by_name(rows)
            return self._queue
