"""The local engine keeps the contract, in a folder whose name breaks careless code. Apart: docs include it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.groups.warm_start import WarmStartGroup
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class TestLocalEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, nasty_path: Path) -> AsyncIterator[LocalHarness]:
        harness = LocalHarness(nasty_path / "smx")
        yield harness
        await harness.close()


@pytest.mark.asyncio
class TestLocalEngineWithoutForkAndNamespaces(WarmStartGroup):
    """Where other systems leave the agent: jobs are spawned and nothing is mounted."""

    @pytest_asyncio.fixture
    async def harness(self, nasty_path: Path) -> AsyncIterator[LocalHarness]:
        harness = LocalHarness(nasty_path / "smx", start_method="spawn", isolate=False)
        yield harness
        await harness.close()
