"""Helpers get their stop when their leader's processes have ended, without waiting until its outputs are packed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from jupyter_smx.testing.fakes.fake_host import FakeHost
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
HELPED = (InstanceGroup(name="data", until="dnn"), InstanceGroup(name="dnn"))


def exited(sim: Simulation, host: FakeHost, job: str) -> None:
    run = host.runs[job]
    run.at["exited"] = sim.world.clock()
    sim.call(lambda: host.send_event({"event": "exited", "job": job, "lease": run.lease, "at": run.at["exited"]}))


def running(sim: Simulation) -> dict[str, FakeHost]:
    return {host.name: host for host, _ in sim.world.running_jobs()}


def test_helpers_are_told_as_soon_as_the_process_of_their_leader_has_ended(sim: Simulation) -> None:
    job = sim.submit(instance_groups=HELPED)
    sim.pass_time(START)
    hosts = running(sim)
    assert set(hosts) == {"algo-1", "algo-2"}
    exited(sim, hosts["algo-2"], job)
    sim.pass_time(START)
    assert set(running(sim)) == {"algo-2"}, "its outputs are still being packed"
    assert hosts["algo-1"].runs[job].record["cause"] == "drained"
    sim.end_job(job)
    sim.pass_time(START)
    record = sim.job(job)
    assert record.state is SecondaryStatus.COMPLETED
    assert [end.cause for end in record.hosts] == ["drained", "exit"]


def test_the_end_of_a_helper_tells_its_leader_nothing(sim: Simulation) -> None:
    job = sim.submit(instance_groups=HELPED)
    sim.pass_time(START)
    exited(sim, running(sim)["algo-1"], job)
    sim.pass_time(START)
    assert set(running(sim)) == {"algo-1", "algo-2"}
    sim.end_job(job)
    sim.pass_time(START)
    assert [end.cause for end in sim.job(job).hosts] == ["exit", "exit"]
