from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_smx.agent.system.processes import event_loop as loops
from jupyter_smx.agent.system.processes.event_loop import Loop

if TYPE_CHECKING:
    import pytest


def test_timers_that_were_cancelled_leave_before_they_are_due() -> None:
    loop = Loop()
    kept = [loop.later(86_400.0, lambda: None) for _ in range(10)]
    for _ in range(5_000):
        loop.later(86_400.0, lambda: None).cancel()
    assert len(loop._timers) < 200
    assert {id(timer) for _, _, timer in loop._timers} >= {id(timer) for timer in kept}


def test_timers_are_called_in_their_order_also_after_the_cancelled_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    called: list[int] = []
    now = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(loops.time, "monotonic", lambda: now)  # all of them count from one moment
        for number in range(300, 0, -1):
            timer = loop.later(number / 1e4, lambda number=number: called.append(number))  # type: ignore[misc]
            if number % 3:
                timer.cancel()
    loop.later(0.05, loop.stop)
    loop.run()
    assert called == list(range(3, 301, 3))
