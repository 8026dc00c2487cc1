"""The whole test of the engine: the contract, on a world made of what the wheel has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from moon_engine import MoonEngine

from jupyter_smx.engines import registry
from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class MoonHarness(LocalHarness):
    def new_engine(self) -> MoonEngine:
        return MoonEngine(data_dir=str(self.folder), **self.traits)

    def actual_plan(self, cluster: str) -> dict[str, object]:
        return {**super().actual_plan(cluster), "engine": "moon"}


class TestMoonEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, nasty_path: Path) -> AsyncIterator[MoonHarness]:
        harness = MoonHarness(nasty_path / "smx")
        yield harness
        await harness.close()


def test_the_entry_point_leads_to_the_engine() -> None:
    assert registry.engine_class("moon") is MoonEngine
