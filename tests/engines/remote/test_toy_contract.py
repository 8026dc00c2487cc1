"""A remote engine keeps the contract, its machine's clock an hour ahead.

The groups of the first class run with all tests; those of the second one take minutes and run with ``--heavy remote``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from toy_harness import ToyHarness

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.groups.concurrency import ConcurrencyGroup
from jupyter_smx.testing.groups.entry_points import EntryPointsGroup
from jupyter_smx.testing.groups.identity import IdentityGroup
from jupyter_smx.testing.groups.networking import NetworkingGroup
from jupyter_smx.testing.groups.observation import ObservationGroup
from jupyter_smx.testing.groups.release import ReleaseGroup
from jupyter_smx.testing.groups.script_mode import ScriptModeGroup
from jupyter_smx.testing.groups.stop import StopGroup
from jupyter_smx.testing.groups.transfer import TransferGroup
from jupyter_smx.testing.groups.warm_start import WarmStartGroup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def harness(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ToyHarness]:
    """Give the engine, whose machine has a name that breaks careless code."""
    machine = tmp_path_factory.mktemp("machine") / 'it\'s a "nasty" $(name) %s & 日本 ünï'
    made = ToyHarness(machine, hidden=tmp_path)
    yield made
    await made.close()


class TestToyEngine(IdentityGroup, ObservationGroup, StopGroup, TransferGroup, ScriptModeGroup):
    """Truth, stopping, transfer and script mode."""


@pytest.mark.heavy("remote")
class TestToyEngineAtLength(ReleaseGroup, ConcurrencyGroup, WarmStartGroup, EntryPointsGroup, NetworkingGroup):
    """The others."""


def test_both_classes_are_the_whole_contract() -> None:
    assert {*TestToyEngine.__bases__, *TestToyEngineAtLength.__bases__} == {*EngineContract.__bases__}
