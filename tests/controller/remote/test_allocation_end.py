"""The end of an allocation: pools, the doctor and the next controller say when a platform ends its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.scheduling.engine_doctor import format_cluster
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOCATION = 1_500.0


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def ends_at(sim: Simulation) -> list[float | None]:
    return [row.allocation_ends_at for row in sim.call(sim.controller.facade.pools)]


def test_a_pool_says_when_its_allocation_ends_also_under_the_next_controller(remote: Simulation) -> None:
    engine = remote.engine
    assert isinstance(engine, FakeRemoteEngine)
    engine.allocation_ends_at = end = remote.world.clock() + ALLOCATION
    remote.run_to_end(keep_alive=600)
    assert ends_at(remote) == [end]
    events = remote.controller.facade.changes(0, 100).events
    assert [event.pool.allocation_ends_at for event in events if event.pool][-1] == end
    remote.restart()
    assert ends_at(remote) == [end]


def test_hosts_without_an_allocation_have_no_end(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=600)
    assert ends_at(remote) == [None]
    (pool,) = remote.pools()
    assert format_cluster(pool, "", remote.world.clock()) == ""


def test_the_doctor_says_of_a_cluster_what_it_waits_for_and_how_long_it_stays(remote: Simulation) -> None:
    engine = remote.engine
    assert isinstance(engine, FakeRemoteEngine)
    now = remote.world.clock()
    engine.allocation_ends_at = now + ALLOCATION
    remote.run_to_end(keep_alive=600)
    (pool,) = remote.pools()
    assert format_cluster(pool, "Its hosts are silent.", now).startswith(
        "Its hosts are silent. Its allocation ends in 25 min, at "
    )
    waits = replace(pool, handle=None, waiting=QueueStatus("Resources", position=3))
    assert format_cluster(waits, "", now) == "Waiting at the engine fake: Resources, position 3."
