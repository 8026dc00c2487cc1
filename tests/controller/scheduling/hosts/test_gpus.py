"""GPUs of the machine on their way to jobs: from the placement over the record to the hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = InstanceType(name="lab.gpu", vcpus=1, memory_gib=1.0, gpus=1)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(limits=replace(LIMITS, gpus=2, catalogue={**LIMITS.catalogue, KIND.name: KIND})) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def submit(sim: Simulation, **fields: Any) -> str:
    job = sim.new_id()
    spec = replace(sim.spec(**fields), instance_groups=(InstanceGroup(instance_type=KIND.name),))
    sim.call(lambda: sim.controller.facade.submit(job, spec))
    sim.pass_time(1.0)
    return job


def gpus(sim: Simulation, job: str) -> list[int]:
    (host,) = sim.hosts(job)
    given: list[int] = host.runs[job].spec["gpus"]
    return given


def test_two_jobs_get_a_gpu_each_and_the_third_gets_the_one_that_was_left(sim: Simulation) -> None:
    first, second, third = (submit(sim) for _ in range(3))
    assert (gpus(sim, first), gpus(sim, second)) == ([0], [1])
    sim.end_job(second)
    sim.pass_time(1.0)
    assert gpus(sim, third) == [1]


def test_a_warm_pool_gets_the_gpu_that_is_free_now(sim: Simulation) -> None:
    first = submit(sim, keep_alive=600)
    sim.end_job(first)
    sim.pass_time(1.0)
    other = submit(sim, keep_alive=600, python="/other/python")
    assert gpus(sim, other) == [0], "an idle pool holds none"
    again = submit(sim, keep_alive=600)
    assert sim.job(again).cluster == sim.job(first).cluster
    assert gpus(sim, again) == [1]


def test_a_new_controller_knows_who_has_which(sim: Simulation) -> None:
    first = submit(sim)
    sim.restart()
    second = submit(sim)
    assert (gpus(sim, first), gpus(sim, second)) == ([0], [1])
