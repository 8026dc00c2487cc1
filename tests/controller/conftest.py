"""What tests of the controller stand on: a simulation of its core, its records in a file, one that serves a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from serving import served

from jupyter_smx.controller.db.store import Store
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.servers.object_storage import bucket
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from serving import World

__all__ = ["bucket"]


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


@pytest.fixture
def ships() -> Iterator[Simulation]:
    """Give a simulation of an engine whose hosts are made of images."""
    with Simulation(engine=FakeImageEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "smx.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store.open(path)
    yield store
    store.close()


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        yield world
