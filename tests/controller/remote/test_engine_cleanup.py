"""Once an hour each engine ends what has no record, and deletes what old clusters left on its machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller import retention
from jupyter_smx.controller.retention import Retention, RetentionPolicy
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing.fakes.fake_engine import FakeUnsharedEngine
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from jupyter_smx.testing.fakes.fake_world import FakeWorld

KEPT = 5_000.0
HOUR = retention.CLEAN_EVERY


class Leftovers(FakeUnsharedEngine):
    """Has hosts without a record, and results of old clusters."""

    def __init__(self, world: FakeWorld, **options: Any) -> None:
        super().__init__(world, **options)
        self.swept: list[Collection[str]] = []
        self.left: set[str] = set()
        self.is_away = False

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Note what was known."""
        if self.is_away:
            raise UnavailableError("The machine cannot be reached.", transient=True)
        self.swept.append(known())
        return []

    async def prune(self, is_needed: Callable[[str], bool]) -> list[str]:
        """Delete what nothing needs."""
        old = sorted(cluster for cluster in self.left if not is_needed(cluster))
        self.left.difference_update(old)
        return old


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(engine=Leftovers) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


@pytest.fixture
def chores(sim: Simulation) -> Retention:
    policy = RetentionPolicy(ended_hosts=KEPT)
    made = Retention(sim.controller.live_state, sim.folder, policy, sim.world.clock, lambda _name: sim.engine)
    made.begin()
    return made


def engine(sim: Simulation) -> Leftovers:
    assert isinstance(sim.engine, Leftovers)
    return sim.engine


def pass_time(sim: Simulation, chores: Retention, seconds: float) -> None:
    sim.pass_time(seconds)
    sim.call(chores.tick)
    sim.pass_time(1)


def test_results_of_clusters_that_ended_long_ago_or_have_no_record_are_deleted(
    sim: Simulation, chores: Retention
) -> None:
    old = sim.job(sim.run_to_end()).cluster
    live = sim.submit()
    sim.pass_time(1)
    engine(sim).left = {old, sim.job(live).cluster, "no-record"}
    pass_time(sim, chores, retention.CLEAN_FIRST)
    assert engine(sim).left == {old, sim.job(live).cluster}
    pass_time(sim, chores, KEPT)
    assert engine(sim).left == {sim.job(live).cluster}
    sim.end_job(live)


def test_hosts_without_a_record_are_ended_once_an_hour(sim: Simulation, chores: Retention) -> None:
    job = sim.submit()
    sim.pass_time(1)
    pass_time(sim, chores, retention.CLEAN_FIRST)
    pass_time(sim, chores, HOUR / 2)
    assert engine(sim).swept == [[sim.job(job).cluster]]
    pass_time(sim, chores, HOUR / 2)
    assert len(engine(sim).swept) == 2
    sim.end_job(job)


def test_an_engine_that_is_away_is_asked_again(sim: Simulation, chores: Retention) -> None:
    job = sim.submit()
    sim.pass_time(1)
    engine(sim).is_away = True
    pass_time(sim, chores, retention.CLEAN_FIRST)
    engine(sim).is_away = False
    pass_time(sim, chores, HOUR)
    assert len(engine(sim).swept) == 1
    sim.end_job(job)
