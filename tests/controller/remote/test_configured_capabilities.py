"""What an engine can do may be a fact of its configuration, as that a cluster has a home that all machines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from traitlets import Bool

from jupyter_smx.engines.base import Capabilities
from jupyter_smx.model.errors import ResourceLimitError, ValidationError
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from pathlib import Path


class ConfiguredEngine(FakeEngine):
    """Decides by its options."""

    shared_home = Bool(False).tag(config=True)
    on_this_machine = Bool(False).tag(config=True)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # the fake has a class attribute
        shared = bool(self.shared_home)
        return Capabilities(shared_folder=shared, same_paths=shared, bounded_by_machine=bool(self.on_this_machine))


def test_a_checkpoint_in_a_folder_is_taken_where_the_configuration_says_that_it_is_shared(tmp_path: Path) -> None:
    with Simulation(engine=ConfiguredEngine) as sim:
        assert isinstance(sim.engine, ConfiguredEngine)
        with pytest.raises(ValidationError, match="--checkpoint"):
            sim.submit(checkpoint=str(tmp_path))
        sim.engine.shared_home = True
        sim.submit(checkpoint=str(tmp_path))
        assert not sim.bugs


def test_the_machine_bounds_hosts_where_the_configuration_says_so() -> None:
    with Simulation(limits=replace(LIMITS, max_hosts=2), engine=ConfiguredEngine) as sim:
        assert isinstance(sim.engine, ConfiguredEngine)
        sim.submit(hosts=3)
        sim.pass_time(1.0)
        assert sim.call(sim.controller.facade.doctor)["capacity"]["hosts"] == [0, 2]
        sim.engine.on_this_machine = True
        sim.pass_time(1.0)  # engines are asked once a second
        with pytest.raises(ResourceLimitError, match="This machine runs at most 2 hosts"):
            sim.submit(hosts=3)
        assert sim.call(sim.controller.facade.doctor)["capacity"]["hosts"] == [3, 2]


def test_an_engine_that_declares_nothing_can_do_what_every_engine_can() -> None:
    class Plain(FakeEngine):
        @property
        def capabilities(self) -> Capabilities:  # type: ignore[override]  # as above
            return super(FakeEngine, self).capabilities

    with Simulation(engine=Plain) as sim:
        assert sim.engine.capabilities == Capabilities()
