"""Answer a retry as the first attempt: all attempts of one call have one invocation ID and one body."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_MAX_ANSWERS = 1024
Key = tuple[str, str, str]
"""Access key, invocation ID, and digest of operation and body."""


class FirstAnswers:
    """The answers of the last calls that change something; a retry gets the answer of the first attempt."""

    def __init__(self, limit: int = _MAX_ANSWERS) -> None:
        self._limit = limit
        self._tasks: OrderedDict[Key, asyncio.Future[dict[str, Any]]] = OrderedDict()

    async def run(self, key: Key, call: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Run a call once for each key and return its answer, also while the first attempt still runs.

        A caller that is cancelled leaves the call running.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(call())
            task.add_done_callback(lambda done: self._drop_failure(key, done))
            while len(self._tasks) > self._limit:
                self._tasks.popitem(last=False)
        return await asyncio.shield(task)

    def _drop_failure(self, key: Key, task: asyncio.Future[dict[str, Any]]) -> None:
        """Forget a call that changed nothing: a client that is throttled tries again with the same ID."""
        if task.cancelled() or task.exception() is not None:
            self._tasks.pop(key, None)
