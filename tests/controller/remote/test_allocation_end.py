"""The end of an allocation: pools, the doctor and the next controller say when a platform ends its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.scheduling.engine_doctor import format_cluster
from jupyter_smx.kernel.text.pages import pools_page
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
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


@pytest.mark.parametrize(
    ("price", "allocation", "nodes"),
    [(None, ALLOCATION, 2), (0.0, ALLOCATION, 2), (0.5, ALLOCATION, 0), (None, None, 0)],
)
def test_idle_time_of_an_allocation_counts_node_hours_unless_its_type_has_a_price(
    remote: Simulation, price: float | None, allocation: float | None, nodes: int
) -> None:
    engine = remote.engine
    assert isinstance(engine, FakeRemoteEngine)
    engine.types = (InstanceType(name="node", vcpus=1, memory_gib=1.0, price_per_hour=price),)
    engine.allocation_ends_at = allocation and remote.world.clock() + allocation
    remote.run_to_end(keep_alive=600, instance_groups=(InstanceGroup(instance_type="node", instance_count=2),))
    remote.pass_time(360.0)
    (row,) = remote.call(remote.controller.facade.pools)
    assert row.nodes == nodes
    assert row.idle_seconds == pytest.approx(360, abs=2)
    assert (row.idle_cost is None) == (price is None)
    page = pools_page([row], remote.world.clock())[0]
    assert ("0.20 node hours" in page) == (nodes == 2)
    assert ("$" in page) == bool(price)
