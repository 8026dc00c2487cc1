"""A test that leaves an agent behind, which must fail; pytest collects it only by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from moon_engine import MoonEngine

from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.asyncio
async def test_a_host_that_is_not_released(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path / "smx")
    await harness.acquire(engine=MoonEngine(data_dir=str(harness.folder)))
