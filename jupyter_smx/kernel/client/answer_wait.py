"""Wait for the answer to one request: send it again for a few seconds if the connection is lost.

A controller that is killed or replaced resets its connections. The next one listens a moment later and gives a
repeated request the same answer: ids are made here, so a repeated submission is the same job.
"""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_smx.controller_launch_errors import NO_LISTENER, REPEAT_LIMIT, REPEAT_PAUSE, is_fenced

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.client.connection import Response

LOST_CONNECTION = (ConnectionError, http.client.HTTPException)
"""Errors of a request that may have been received."""


@dataclass(frozen=True)
class RepeatPolicy:
    """Seconds after the first lost answer during which a request is repeated; clock and sleep for tests."""

    limit: float = REPEAT_LIMIT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


class AnswerWait:
    """Tries of one request. ``may_repeat``: it may be sent again although it may have been received.

    ``start`` starts a controller and raises UnavailableError if it cannot; ``is_closed`` returns True if the caller has
    given up.
    """

    def __init__(
        self, policy: RepeatPolicy, start: Callable[[], None], is_closed: Callable[[], bool], *, may_repeat: bool
    ) -> None:
        self._policy = policy
        self._start = start
        self._is_closed = is_closed
        self._may_repeat = may_repeat
        self._until: float | None = None
        self._starts = self._losses = 0
        self.may_have_been_received = False
        """True if a controller may have received, and so executed, the request."""

    def exchange(self, send: Callable[[], Response]) -> Response:
        """Send until there is an answer.

        :raises UnavailableError: no controller can be started.
        :raises OSError, http.client.HTTPException: no answer within the seconds of the policy.
        """
        while True:
            try:
                answer = send()
            except NO_LISTENER:  # noqa: PERF203 - each turn is a request
                self._start_controller()
            except LOST_CONNECTION:
                self.may_have_been_received = True
                if not self._may_repeat or not self._can_go_on():
                    raise
            else:
                # A controller that was replaced wrote nothing, and its successor is there already.
                if not (is_fenced(answer.status, answer.body) and self._can_go_on()):
                    return answer

    def _start_controller(self) -> None:
        """Start one; after the first time only within the seconds of the policy. To be called in an ``except``."""
        if self._is_closed() or (self._starts and not self._can_go_on()):
            raise  # noqa: PLE0704 - the error of the caller
        self._starts += 1
        self._start()

    def _can_go_on(self) -> bool:
        """Pause and return True, or return False where the seconds are over or the caller has given up."""
        now, self._losses = self._policy.clock(), self._losses + 1
        if self._until is None:
            self._until = now + self._policy.limit
        if self._is_closed() or now >= self._until:
            return False
        if self._losses > 1:  # the next controller may listen already
            self._policy.sleep(REPEAT_PAUSE)
        return not self._is_closed()
