"""The Slurm engine keeps the contract of engines on three nodes.

The groups of the first class run with all tests; those of the second one take minutes and run with ``--heavy slurm``.
"""

from __future__ import annotations

import pytest

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


class TestSlurmEngine(ObservationGroup, StopGroup, TransferGroup, ScriptModeGroup):
    """Truth, stopping, transfer and script mode."""


@pytest.mark.heavy("slurm")
class TestSlurmEngineAtLength(
    IdentityGroup, ReleaseGroup, ConcurrencyGroup, WarmStartGroup, EntryPointsGroup, NetworkingGroup
):
    """The others."""


def test_both_classes_are_the_whole_contract() -> None:
    assert {*TestSlurmEngine.__bases__, *TestSlurmEngineAtLength.__bases__} == {*EngineContract.__bases__}
