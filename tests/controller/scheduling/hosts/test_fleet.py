"""What is done for a cluster, where it breaks off in the middle or the cluster is over meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from traitlets import TraitError

from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing.fakes.fake_engine import FakeEngine, Outage
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from jupyter_smx.engines.base import ClusterRequest, Observation
    from jupyter_smx.model.records.cluster import Handle


class Launching(FakeEngine):
    """Has something under way for each launch, as tasks that bring hosts up."""

    under_way = 0

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        self.under_way += 1
        try:
            async for handle in super().acquire(request):
                yield handle
        finally:
            self.under_way -= 1


def test_a_launch_of_which_nothing_can_be_written_down_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once means before garbage collection closes the generator."""
    with Simulation(engine=Launching) as sim:
        fleet, books, engine = sim.controller.reconciler.cluster_reconciler, sim.controller.live_state, sim.engine
        assert isinstance(engine, Launching)
        job = sim.submit(keep_alive=600)
        sim.pass_time(1)
        cluster = books.clusters[sim.job(job).cluster]

        def full(*_what: object, **_changes: Any) -> None:
            assert engine.under_way == 1
            raise RecordsError("The disk is full.")

        monkeypatch.setattr(books, "save", full)

        async def launch() -> int:
            with pytest.raises(RecordsError):
                await fleet._collect_handles(engine, fleet.request(cluster.id, cluster))
            return engine.under_way

        assert sim.call(launch) == 0


class Slow(FakeEngine):
    """Answers what became of its clusters when it may."""

    looks = 0
    may: asyncio.Event

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        self.looks += 1
        await self.may.wait()
        return await super().observe_all(handles)


def test_an_engine_that_answers_slowly_is_asked_once_at_a_time_and_again_after_that() -> None:
    with Simulation(engine=Slow) as sim:
        engine = sim.engine
        assert isinstance(engine, Slow)
        engine.may = asyncio.Event()
        sim.submit()
        sim.pass_time(10 * engine.observe_interval)
        assert engine.looks == 1
        sim.call(engine.may.set)
        sim.pass_time(engine.observe_interval + 1)
        assert engine.looks > 1


class Counted(FakeEngine):
    """Counts how often it is asked what became of its clusters."""

    looks = 0

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        self.looks += 1
        return await super().observe_all(handles)


@pytest.mark.parametrize(("interval", "most"), [(5.0, 13), (60.0, 2)])
def test_an_engine_is_asked_as_often_as_it_says(interval: float, most: int) -> None:
    with Simulation(engine=Counted) as sim:
        engine = sim.engine
        assert isinstance(engine, Counted)
        engine.observe_interval = interval
        sim.submit()
        sim.pass_time(61)
        assert most - 1 <= engine.looks <= most


def test_a_stream_that_breaks_is_looked_at_at_once() -> None:
    with Simulation(engine=Counted) as sim:
        sim.engine.observe_interval = 600.0
        job = sim.submit()
        sim.pass_time(61)
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(2)
        assert sim.job(job).failure_reason.startswith("InternalServerError: Host algo-1 was lost")


def test_an_interval_below_a_second_is_refused() -> None:
    with Simulation() as sim, pytest.raises(TraitError):
        sim.engine.observe_interval = 0.5


def test_a_cluster_that_is_over_while_it_is_asked_after_raises_nothing_that_nobody_foresaw() -> None:
    with Simulation() as sim:
        fleet = sim.controller.reconciler.cluster_reconciler
        job = sim.submit()
        sim.pass_time(1)
        cluster = sim.controller.live_state.clusters[sim.job(job).cluster]
        sim.set_faults(Outage())
        before = fleet._runtimes.pop(cluster.id)

        async def connect() -> None:
            sim.controller.agents.close(cluster.id)
            with pytest.raises(UnavailableError):
                await fleet._connect(cluster)

        sim.call(connect)
        assert cluster.id not in fleet._runtimes
        fleet._runtimes[cluster.id] = before
