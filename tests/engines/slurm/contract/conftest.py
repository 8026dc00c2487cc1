"""The harness of the Slurm engine on a cluster, ``harness``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "remote"))

from slurm_harness import SlurmHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from worlds.slurm.slurm_world import SlurmWorld


@pytest.fixture
def slurm_folder() -> Iterator[Path]:
    """Give the data folder of the engine."""
    folder = Path(tempfile.mkdtemp(prefix="smx-slurm-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def harness(slurm_folder: Path, slurm_world: SlurmWorld) -> AsyncIterator[SlurmHarness]:
    """Give the engine; after the test no job of it is left."""
    made = SlurmHarness(slurm_folder, slurm_world)
    yield made
    await made.close()
