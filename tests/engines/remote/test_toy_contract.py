"""A remote engine keeps the contract, its machine's clock an hour ahead.

It takes minutes and runs with ``--heavy remote``. The engine stands for no platform, so it is none of ``make test``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from toy_harness import ToyHarness

from jupyter_smx.testing.contract import EngineContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.heavy("remote")


class TestToyEngine(EngineContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ToyHarness]:
        """Give the engine, whose machine has a name that breaks careless code."""
        machine = tmp_path_factory.mktemp("machine") / 'it\'s a "nasty" $(name) %s & 日本 ünï'
        made = ToyHarness(machine, hidden=tmp_path)
        yield made
        await made.close()
