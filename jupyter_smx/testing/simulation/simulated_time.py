"""An event loop with a simulated clock: time advances when all tasks wait, and takes none itself."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_THREAD_POLL_INTERVAL = 0.01


class _Selector(selectors.DefaultSelector):
    """Never waits for time: if nothing is ready it calls the loop, which moves its clock."""

    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; wait in real time for a running thread."""
        ready = super().select(0)
        while not ready and timeout != 0 and self.loop.threads:
            ready = super().select(_THREAD_POLL_INTERVAL)
        if not ready and timeout != 0:
            self.loop.on_idle(timeout)
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs callbacks, sockets and threads as ever; timers by a clock that starts at 0 and jumps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.threads = 0
        self._idle_waiters: list[asyncio.Future[None]] = []
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Return simulated seconds."""
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Do as ever; while the thread works the clock stands still."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: object) -> None:
        self.threads -= 1

    def on_idle(self, timeout: float | None) -> None:
        """Wake the tasks that wait until nothing is ready, or move the clock to the next timer.

        :raises RuntimeError: a task waits for what can never come.
        """
        if self._idle_waiters:
            waiting, self._idle_waiters = self._idle_waiters, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        elif timeout is None:
            raise RuntimeError("Everybody waits, and there is no timer, no socket and no thread that could wake them.")
        else:
            self.now += timeout

    async def wait_idle(self) -> None:
        """Wait until nothing can happen any more without time passing."""
        future = self.create_future()
        self._idle_waiters.append(future)
        await future

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and everything that follows from it without time passing."""

        async def then_quiet() -> T:
            result = await coroutine
            await self.wait_idle()
            return result

        return self.run_until_complete(then_quiet())

    def pass_time(self, seconds: float) -> None:
        """Advance the simulated time, with everything that is due in it."""
        self.run(asyncio.sleep(seconds))
