"""A remote engine keeps the contract, its machine's clock an hour ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from toy_harness import ToyHarness

from jupyter_smx.testing.contract import EngineContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


class TestToyEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ToyHarness]:
        machine = tmp_path_factory.mktemp("machine") / 'it\'s a "nasty" $(name) %s & 日本 ünï'
        harness = ToyHarness(machine, hidden=tmp_path)
        yield harness
        await harness.close()
