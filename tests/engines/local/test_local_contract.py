"""The local engine keeps the contract, in a folder whose name breaks careless code. Apart: docs include it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.groups.warm_start import WarmStartGroup
from jupyter_smx.testing.local_harness import LocalHarness
from jupyter_smx.testing.pytest_plugin import NASTY_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LONGER_THAN_THE_CLASS = 3_600.0
"""Seconds for which the shared host waits for a job."""


@pytest.fixture(scope="class")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHarness]:
    """Give a harness with a host for all tests of a class; its data folder is also that of each test's harness."""
    harness = LocalHarness(tmp_path_factory.mktemp("class") / NASTY_NAME / "smx", **request.cls.traits)
    plan = replace(harness.request(), idle_limit=LONGER_THAN_THE_CLASS)
    harness.shared_handle = asyncio.run(harness.acquire(plan))
    yield harness
    harness.shared_handle = None
    asyncio.run(harness.close())


@pytest_asyncio.fixture
async def harness(shared: LocalHarness) -> AsyncIterator[LocalHarness]:
    """Give the engine; after the test nothing of it is left but the shared host."""
    harness = LocalHarness(shared.folder, **shared.traits)
    harness.shared_handle = shared.shared_handle
    yield harness
    if not await harness.has_idle_shared_host():
        harness.shared_handle = shared.shared_handle = None  # the next tests have hosts of their own
    await harness.close()


class TestLocalEngine(EngineContract):
    """Jobs are forked, in namespaces of their own."""

    traits: ClassVar[dict[str, object]] = {}


@pytest.mark.asyncio
class TestLocalEngineWithoutForkAndNamespaces(WarmStartGroup):
    """Where other systems leave the agent: jobs are spawned and nothing is mounted."""

    traits: ClassVar[dict[str, object]] = {"start_method": "spawn", "isolate": False}
