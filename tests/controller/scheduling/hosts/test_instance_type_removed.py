"""An instance type that the administrator takes out of the configuration while jobs want it and hosts have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = InstanceType(name="lab.small", vcpus=1, memory_gib=1.0)
GROUPS = (InstanceGroup(instance_type="lab.small"),)
START = 0.6


@pytest.fixture
def lab() -> Iterator[Simulation]:
    with Simulation(limits=replace(LIMITS, catalogue=LIMITS.catalogue | {SMALL.name: SMALL})) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def take_it_out(sim: Simulation) -> None:
    sim.kill_controller()
    sim.limits = LIMITS
    sim.restart()


def test_a_job_that_waits_for_it_fails_with_its_name_and_holds_up_nobody(lab: Simulation) -> None:
    first, waits, later = lab.submit(hosts=2), lab.submit(instance_groups=GROUPS), lab.submit()
    lab.pass_time(START)
    take_it_out(lab)
    lab.end_job(first)
    lab.pass_time(START + 1)
    found = lab.job(waits)
    assert found.status() is Status.FAILED
    assert found.failure_reason.startswith("ClientError: ")
    assert "'lab.small' is not an instance type" in found.failure_reason
    assert lab.job(later).state is SecondaryStatus.TRAINING


def test_a_job_that_runs_on_it_goes_on_and_its_host_counts_as_the_whole_machine(lab: Simulation) -> None:
    runs = lab.submit(instance_groups=GROUPS)
    lab.pass_time(START)
    take_it_out(lab)
    other = lab.submit()
    lab.pass_time(START + 1)
    assert lab.job(runs).state is SecondaryStatus.TRAINING
    assert lab.start_reason(other).sentence.endswith("It needs 1 CPU, and 2 of 2 are in use.")
    lab.end_job(runs)
    lab.pass_time(START + 1)
    assert lab.job(runs).status() is Status.COMPLETED
    assert lab.job(other).state is SecondaryStatus.TRAINING


def test_hosts_that_are_being_brought_up_are_asked_for_again(lab: Simulation) -> None:
    job = lab.submit(instance_groups=GROUPS)
    take_it_out(lab)
    lab.pass_time(START + 1)
    assert lab.job(job).state is SecondaryStatus.TRAINING
    assert set(lab.world.launches.values()) == {1}
