"""An environment where the system deletes unused files: its files are marked as used, or it is built again."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.environments.cache import EnvironmentCache
from jupyter_smx.controller.environments.unused_files import MARKER
from jupyter_smx.model.records.cluster import ReuseKey
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.fakes.fake_builder import FakeBuilder

if TYPE_CHECKING:
    from pathlib import Path

KEY = ReuseKey(
    engine="local",
    user="me",
    role="",
    instance_groups=(),
    python="/usr/bin/python3",
    environment=PythonEnvironment(requirements=("numpy",)),
)
DAY = 86_400.0


class World:
    """A cache in a folder that is cleaned, with one environment, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000_000_000.0
        self.builder = FakeBuilder(seconds=0.0)
        self.cache = EnvironmentCache(folder, self.builder, limit=60.0, max_unused=1, clock=lambda: self.now)
        self.folder = folder

    async def provide(self) -> None:
        await self.cache.provide(KEY, lambda _step: None)

    @property
    def place(self) -> Path:
        [place] = self.folder.iterdir()
        return place

    def times(self) -> dict[str, tuple[float, float]]:
        """Give the times of access and of contents of all files and links; to look at a folder is an access."""
        files = [path for path in self.place.rglob("*") if path.is_symlink() or not path.is_dir()]
        found = {str(path.relative_to(self.place)): path.lstat() for path in files}
        return {name: (status.st_atime, status.st_mtime) for name, status in found.items()}


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    await made.provide()
    (made.place / "venv" / "module.py").write_text("x = 1\n")
    (made.place / "venv" / "link").symlink_to("/nowhere")
    os.utime(made.place / MARKER, (made.now, made.now))
    return made


async def test_an_environment_of_which_a_cleaner_deleted_the_oldest_file_is_built_again(world: World) -> None:
    assert world.cache.is_ready(KEY)
    await world.provide()
    assert sum(world.builder.build_counts.values()) == 1
    (world.place / MARKER).unlink()
    assert not world.cache.is_ready(KEY)
    await world.provide()
    assert world.cache.is_ready(KEY)
    assert sum(world.builder.build_counts.values()) == 2


async def test_an_environment_without_all_its_files_is_not_ready_while_or_after_its_build_is_stopped(
    world: World,
) -> None:
    (world.place / MARKER).unlink()
    world.builder.seconds = 600.0
    build = asyncio.create_task(world.provide())
    await eventually(lambda: world.builder.running_builds, "the build is under way")
    assert not world.cache.is_ready(KEY)
    build.cancel()
    await asyncio.gather(build, return_exceptions=True)
    await eventually(lambda: not world.builder.running_builds, "the build is stopped")
    assert not world.cache.is_ready(KEY)
    world.builder.seconds = 0.0
    await world.provide()
    assert world.cache.is_ready(KEY)


async def test_all_files_are_marked_as_used_once_a_day_and_keep_the_times_of_their_contents(world: World) -> None:
    before = world.times()
    world.now += DAY - 1
    world.cache.mark_used(KEY)
    world.now += 1
    world.cache.mark_used(KEY)
    used = set(before) - {"ready.json"}
    await eventually(lambda: all(world.times()[name][0] == world.now for name in used), "all files are marked")
    changed = {name for name in used if world.times()[name][1] != before[name][1]}
    assert changed == {MARKER}
    world.now += DAY - 1
    world.cache.mark_used(KEY)
    assert world.times()["venv/module.py"][0] == world.now - DAY + 1


async def test_a_folder_that_nothing_cleans_needs_no_marker(tmp_path: Path) -> None:
    cache = EnvironmentCache(tmp_path, FakeBuilder(seconds=0.0), limit=60.0, max_unused=1)
    await cache.provide(KEY, lambda _step: None)
    assert cache.is_ready(KEY)
    assert MARKER not in {name for _, _, names in os.walk(tmp_path) for name in names}
    assert len(asyncio.all_tasks()) == 1
