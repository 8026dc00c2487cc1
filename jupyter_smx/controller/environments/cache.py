"""Environments on this machine: which are ready, one shared build for each, and which are evicted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from typing import TYPE_CHECKING, Protocol

from jupyter_smx.agent.code.environment_build import LOCK, READY, VENV
from jupyter_smx.controller.environments import unused_files
from jupyter_smx.controller.environments.build_process import BuildError
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.lifecycle.environment import environment_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from jupyter_smx.model.records.cluster import ReuseKey
    from jupyter_smx.model.spec.job_spec import PythonEnvironment

_log = logging.getLogger(__name__)

MAX_BUILDS = 2
"""Builds at the same time; compilers and downloads are better one after the other."""
_DELETION_PREFIX = ".leaving-"


class Builder(Protocol):
    """Creates an environment; tests have a fake."""

    async def build(
        self, folder: Path, python: str, environment: PythonEnvironment, say: Callable[[str], None]
    ) -> None:
        """Create an environment whose interpreter is ``folder``/venv/bin/python, and mark it as ready last."""


class _RunningBuild:
    """One build under way, and the callbacks that get its steps."""

    def __init__(self, build: asyncio.Task[None]) -> None:
        self.build = build
        self.listeners: list[Callable[[str], None]] = []
        self.step = ""

    def report_step(self, step: str) -> None:
        """Pass a step on."""
        self.step = step
        for listener in self.listeners:
            listener(step)


class EnvironmentCache:
    """The folder ``environments`` of the data folder; each environment has one in it, named by its identity.

    ``limit`` is the number of seconds that a build may take, ``max_unused`` how many environments stay that nothing
    uses. ``clock``, in seconds since the epoch, is given where the system deletes unused files in the folder.
    """

    def __init__(
        self,
        folder: Path,
        builder: Builder,
        *,
        limit: float,
        max_unused: int,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._builder = builder
        self._limit = limit
        self._max_unused = max_unused
        self._builds: dict[str, _RunningBuild] = {}
        self._slots = asyncio.Semaphore(MAX_BUILDS)

    def python_of(self, key: ReuseKey) -> str:
        """Return the interpreter of a cluster's hosts: the requested one, or that of its environment."""
        if key.environment is None:
            return key.python
        return os.fspath(self._environment_folder(key.python, key.environment) / VENV / "bin" / "python")

    def is_ready(self, key: ReuseKey) -> bool:
        """Return True if the interpreter of a cluster exists."""
        if key.environment is None:
            return True
        place = self._environment_folder(key.python, key.environment)
        if self._clock is not None and not unused_files.is_whole(place):
            return False
        # The interpreter is a link to the base's, which may have been removed.
        return (place / READY).exists() and (place / VENV / "bin" / "python").exists()

    async def provide(self, key: ReuseKey, say: Callable[[str], None]) -> None:
        """Wait until the environment is ready; ``say`` gets the steps of the build.

        If all callers that wait for a build are cancelled, the build is cancelled at once.

        :raises BuildError: the build failed; the next call tries again.
        """
        if key.environment is None or self.is_ready(key):
            return
        order = self._join_build(key.python, key.environment)
        order.listeners.append(say)
        if order.step:
            say(order.step)
        try:
            await asyncio.shield(order.build)
        finally:
            order.listeners.remove(say)
            if not order.listeners:
                order.build.cancel()
                self._drop_build(order)

    def _join_build(self, python: str, environment: PythonEnvironment) -> _RunningBuild:
        name = environment_id(python, environment)
        order = self._builds.get(name)
        if order is None or order.build.done():
            build = self._make(name, python, environment)
            order = self._builds[name] = _RunningBuild(asyncio.create_task(build, name=f"environment {name}"))
            order.build.add_done_callback(_retrieve_exception)
        return order

    def _drop_build(self, order: _RunningBuild) -> None:
        for name, known in [*self._builds.items()]:
            if known is order:
                del self._builds[name]

    async def _make(self, name: str, python: str, environment: PythonEnvironment) -> None:
        order = self._builds[name]
        if self._slots.locked():
            order.report_step("Waiting for other builds")
        async with self._slots:
            await self._make_now(order, self._folder / name, python, environment)

    async def _make_now(self, order: _RunningBuild, folder: Path, python: str, environment: PythonEnvironment) -> None:
        if self._clock is not None:
            await asyncio.to_thread(unused_files.create_marker, folder)
        build = asyncio.ensure_future(self._builder.build(folder, python, environment, order.report_step))
        build.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait_for(build, self._limit)
        except asyncio.TimeoutError:
            at = f" while it was {order.step[0].lower()}{order.step[1:]}" if order.step else ""
            raise BuildError(
                f"--requirements: building the environment took longer than {format_duration(self._limit)}{at}.",
                field="requirements",
                rule="The administrator sets the limit with ControllerApp.environment_limit.",
                cure="Run the job again; finished downloads are reused.",
            ) from None

    # The cache

    def mark_used(self, key: ReuseKey) -> None:
        """Note that an environment is needed now, so that older ones go before it."""
        if key.environment is None:
            return
        place = self._environment_folder(key.python, key.environment)
        with contextlib.suppress(OSError):
            os.utime(place / READY)
        if self._clock is not None and unused_files.is_mark_due(place, now := self._clock()):
            asyncio.get_running_loop().run_in_executor(None, unused_files.mark_all_used, place, now)

    def prune(self, in_use: Iterable[ReuseKey]) -> None:
        """Delete the environments that were not used for longest, if there are more than the limit.

        Those ``in_use`` and those being built stay. They are renamed at once and deleted by a thread.
        """
        needed = {environment_id(key.python, key.environment) for key in in_use if key.environment is not None}
        idle = sorted(self._idle(needed | self._builds.keys()))
        leaving = [self._rename_for_deletion(place) for _, place in idle[: max(0, len(idle) - self._max_unused)]]
        left_over = [place for place in self._environment_folders() if place.name.startswith(_DELETION_PREFIX)]
        if gone := {*filter(None, leaving), *left_over}:
            asyncio.get_running_loop().run_in_executor(None, _delete, gone)

    def _idle(self, needed: Collection[str]) -> Iterable[tuple[float, Path]]:
        for place in self._environment_folders():
            if place.name in needed or place.name.startswith("."):
                continue
            for file in (place / READY, place / LOCK, place):  # what failed has its log there, and its age
                with contextlib.suppress(OSError):
                    yield file.stat().st_mtime, place
                    break

    def _environment_folders(self) -> list[Path]:
        try:
            return [*self._folder.iterdir()]
        except OSError:
            return []

    def _rename_for_deletion(self, place: Path) -> Path | None:
        try:
            return place.rename(place.with_name(f"{_DELETION_PREFIX}{place.name}"))
        except OSError as error:
            _log.warning("environment=%s delete failed: %s", place.name, error)
            return None

    def _environment_folder(self, python: str, environment: PythonEnvironment) -> Path:
        return self._folder / environment_id(python, environment)


def _delete(places: Iterable[Path]) -> None:
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


def _retrieve_exception(build: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio does not report it if all callers were cancelled."""
    if not build.cancelled():
        build.exception()
