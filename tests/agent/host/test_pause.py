"""When a host tidies up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.host.idle_cleanup import IdleCleanup
from jupyter_smx.agent.system.processes.event_loop import Timer

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


class Host:
    """Tidies up unless a job runs, and may take its time."""

    def __init__(self, loop: Loop, *, is_urgent: bool = False) -> None:
        self.loop = loop
        self.is_busy = False
        self.used: list[float] = []
        self.pause = IdleCleanup(loop, self.tidy, lambda: is_urgent, lambda: loop.now)

    def tidy(self) -> None:
        if not self.is_busy:
            self.used.append(self.loop.now)
            self.pause.mark_clean()

    def work(self, seconds: float) -> None:
        """Do a job, which leaves something."""
        self.is_busy = True
        self.loop.go_on(seconds)
        self.is_busy = False
        self.pause.request()


def test_it_comes_once_after_the_last_job() -> None:
    host = Host(Loop())
    for _ in range(5):
        host.work(0.1)
        host.loop.go_on(0.1)
    host.loop.go_on(0.1)
    assert len(host.used) == 1
    host.loop.go_on(10)
    assert len(host.used) == 1


@pytest.mark.parametrize(
    ("job", "gap"), [(0.05, 0.0), (0.05, 0.01), (0.3, 0.01), (1.0, 0.01), (1.0, 0.15), (7.0, 0.01)]
)
def test_jobs_without_a_pause_put_it_off_for_five_seconds_and_no_longer(job: float, gap: float) -> None:
    host = Host(Loop())
    while host.loop.now < 200.0:
        host.work(job)
        host.loop.go_on(gap)
    gaps = [after - before for before, after in zip([100.0, *host.used], host.used, strict=False)]
    assert len(gaps) >= 90 / max(7.5, 2 * job + 1)
    assert all(5.0 <= each <= 5.5 + 2 * (job + gap) for each in gaps), gaps


def test_where_there_is_hardly_room_it_comes_in_each_gap() -> None:
    host = Host(Loop(), is_urgent=True)
    for _ in range(3):
        host.work(1.0)
    assert len(host.used) == 3


def test_what_is_left_while_it_is_tidied_up_is_tidied_up_next() -> None:
    host = Host(Loop())
    host.work(0.1)
    host.loop.go_on(0.2)
    assert len(host.used) == 1
    host.pause.continue_if_dirty()
    host.loop.go_on(10)
    assert len(host.used) == 1, "nothing was left"
    host.is_busy = True
    host.pause.request()
    host.loop.go_on(1)
    host.is_busy = False
    host.pause.continue_if_dirty()
    host.loop.go_on(0.2)
    assert len(host.used) == 2
