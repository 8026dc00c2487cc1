"""The harness of the Slurm engine on a cluster, ``harness``."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "remote"))

from slurm_harness import SlurmHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from worlds.slurm.slurm_world import SlurmWorld

LONGER_THAN_THE_CLASS = 3_600.0
"""Seconds for which the shared host waits for a job, and those of its job of Slurm."""


@pytest.fixture(scope="class")
def shared(slurm_world_of_session: SlurmWorld) -> Iterator[SlurmHarness]:
    """Give a harness with a host for all tests of a class; its data folder is also that of each test's harness."""
    folder = Path(tempfile.mkdtemp(prefix="smx-slurm-"))
    made = SlurmHarness(folder, slurm_world_of_session)
    plan = replace(made.request(), idle_limit=LONGER_THAN_THE_CLASS, max_run=int(LONGER_THAN_THE_CLASS))
    made.shared_handle = asyncio.run(made.acquire(plan))
    yield made
    made.shared_handle = None
    asyncio.run(made.close())
    shutil.rmtree(folder)


@pytest.fixture
async def harness(shared: SlurmHarness, slurm_world: SlurmWorld) -> AsyncIterator[SlurmHarness]:
    """Give the engine; after the test no job of it is left but that of the shared host."""
    made = SlurmHarness(shared.folder, slurm_world)
    made.shared_handle = shared.shared_handle
    yield made
    if not await made.has_idle_shared_host():
        made.shared_handle = shared.shared_handle = None  # the next tests have hosts of their own
    await made.close()
