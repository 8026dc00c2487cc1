"""What is done for a cluster, where it breaks off in the middle or the cluster is over meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.controller.scheduling.cluster_reconciler import OBSERVE_INTERVAL
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
    """And not when somebody collects what is left of it."""
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
        sim.pass_time(10 * OBSERVE_INTERVAL)
        assert engine.looks == 1
        sim.call(engine.may.set)
        sim.pass_time(OBSERVE_INTERVAL + 1)
        assert engine.looks > 1


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
