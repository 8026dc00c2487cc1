"""When a host tidies up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.agent.hosts.pause import Pause
from jupyter_smx.agent.system.loop import Timer

if TYPE_CHECKING:
    from collections.abc import Callable


class Loop:
    """Timers that are due when a test says so; it is the clock as well."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Timer]] = []

    def later(self, seconds: float, call: Callable[[], None], /) -> Timer:
        timer = Timer(call)
        self.timers.append((self.now + seconds, timer))
        return timer

    def go_on(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for at, timer in self.timers if at <= self.now + 1e-9]
        self.timers = [(at, timer) for at, timer in self.timers if at > self.now + 1e-9]
        for timer in due:
            if timer.call is not None:
                timer.call()


def a_pause(loop: Loop, *, is_urgent: bool = False) -> tuple[Pause, list[float]]:
    used: list[float] = []

    def tidy() -> None:
        used.append(loop.now)
        pause.used()

    pause = Pause(loop, tidy, lambda: is_urgent, lambda: loop.now)
    return pause, used


def test_it_comes_once_after_the_last_job() -> None:
    loop = Loop()
    pause, used = a_pause(loop)
    for _ in range(5):
        pause.soon()
        loop.go_on(0.1)
    loop.go_on(0.1)
    assert len(used) == 1
    loop.go_on(10)
    assert len(used) == 1


def test_jobs_without_a_pause_put_it_off_for_five_seconds_and_no_longer() -> None:
    loop = Loop()
    pause, used = a_pause(loop)
    for _ in range(300):
        pause.soon()
        loop.go_on(0.05)
    gaps = [after - before for before, after in zip([100.0, *used], used, strict=False)]
    assert len(used) == 2
    assert all(5.0 <= gap <= 5.5 for gap in gaps), gaps


def test_a_pause_that_a_job_took_comes_again_after_that_job() -> None:
    loop = Loop()
    pause, used = a_pause(loop)
    pause.soon()
    loop.go_on(0.2)
    loop.go_on(60.0)
    pause.soon()
    loop.go_on(0.2)
    assert len(used) == 2


def test_where_there_is_hardly_room_it_comes_at_once() -> None:
    loop = Loop()
    pause, used = a_pause(loop, is_urgent=True)
    for _ in range(3):
        pause.soon()
        loop.go_on(0.0)
    assert len(used) == 3
