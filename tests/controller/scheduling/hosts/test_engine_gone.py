"""A job that waits for an engine which is not there any more, as after a restart in another environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from jupyter_smx.testing.fakes.fake_engine import FakeEngine
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6


@pytest.fixture
def waits(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a job that waits for such an engine, in a line of its own."""
    sim.submit(hosts=2)
    job = sim.submit(hosts=2)
    waiting = sim.job(job)
    sim.call(lambda: sim.controller.live_state.save(jobs=[replace(waiting, spec=replace(waiting.spec, engine="gone"))]))

    def engine_of(name: str) -> FakeEngine:
        if name != "fake":
            raise ValidationError(f"--engine: {name!r} is not an engine.", field="engine", value=name)
        return sim.engine

    desk, reconciler = sim.controller.facade, sim.controller.reconciler
    for who in (desk, reconciler, reconciler.dispatcher, reconciler.desired_state):
        monkeypatch.setattr(who, "_engine_of", engine_of)
    sim.pass_time(START)
    return job


def test_it_can_be_looked_at_and_says_what_it_waits_for(sim: Simulation, waits: str) -> None:
    found = sim.call(lambda: sim.controller.facade.job(waits))
    assert found.state is SecondaryStatus.PENDING
    assert found.why.sentence == "Queued. --engine: 'gone' is not an engine."


def test_it_can_be_stopped(sim: Simulation, waits: str) -> None:
    sim.stop(waits)
    assert sim.job(waits).state is SecondaryStatus.STOPPED
