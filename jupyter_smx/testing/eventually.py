"""Wait in tests until a condition is true, with a deadline, never for a fixed number of seconds."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_SHORTEST_PAUSE = 0.005
_LONGEST_PAUSE = 0.05
_SHARE = 0.1
"""Most conditions look through ``/proc`` or ask a controller: each look takes a processor from what is waited for."""


async def eventually(condition: Callable[[], T | Awaitable[T]], what: str = "", *, within: float = 15.0) -> T:
    """Call ``condition``, which may be a coroutine function, until its result is true; return the result.

    :raises AssertionError: it was never true for ``within`` seconds; the text has ``what`` and the last answer.
    """
    begin = time.monotonic()
    while True:
        answer = condition()
        value = cast("T", await answer) if inspect.isawaitable(answer) else answer
        if value:
            return value
        waited = time.monotonic() - begin
        if waited >= within:
            raise AssertionError(_timeout_message(condition, what, within, value))
        await asyncio.sleep(pause(waited))


def eventually_blocking(condition: Callable[[], T], what: str = "", *, within: float = 15.0) -> T:
    """Do the same as :func:`eventually` without an event loop.

    :raises AssertionError: it was never true for ``within`` seconds.
    """
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        if waited >= within:
            raise AssertionError(_timeout_message(condition, what, within, value))
        time.sleep(pause(waited))


def pause(waited: float) -> float:
    """Return the seconds until the next look: a tenth of what was waited for, within limits. Pure."""
    return min(max(_SHORTEST_PAUSE, _SHARE * waited), _LONGEST_PAUSE)


def _timeout_message(condition: object, what: str, within: float, last: object) -> str:
    name = what or getattr(condition, "__qualname__", repr(condition))
    return f"It was never so within {within:g} s: {name}; the last answer was {last!r}."
