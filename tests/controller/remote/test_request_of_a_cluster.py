"""What an engine learns of a cluster before it exists: time, person, and the options of its instance types."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError, ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_smx.engines.base import ClusterRequest

CPU = InstanceType(name="lab.cpu", vcpus=4, memory_gib=8.0, options={"partition": "cpu", "account": "physics"})
GPU = InstanceType(name="lab.gpu", vcpus=8, memory_gib=8.0, gpus=1, options={"partition": "gpu", "gres": "gpu:a100:1"})
GROUPS = (
    InstanceGroup(name="data", instance_type="lab.cpu", until="train"),
    InstanceGroup(name="train", instance_type="lab.gpu"),
)


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        assert isinstance(simulation.engine, FakeRemoteEngine)
        simulation.engine.types = (CPU, GPU)
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def requests(sim: Simulation) -> list[ClusterRequest]:
    assert isinstance(sim.engine, FakeRemoteEngine)
    return sim.engine.requests


def submit(
    sim: Simulation, groups: tuple[InstanceGroup, ...] = GROUPS, options: Mapping[str, str] = MappingProxyType({})
) -> str:
    job = sim.new_id()
    spec = replace(
        sim.spec(max_run=3_600, keep_alive=600, spot=True, role="arn:aws:iam::1:role/physics"),
        instance_groups=groups,
        engine_options=dict(options),
    )
    sim.call(lambda: sim.controller.facade.submit(job, spec))
    return job


def test_the_engine_learns_how_long_the_hosts_are_needed_and_for_whom(remote: Simulation) -> None:
    submit(remote)
    (asked,) = requests(remote)
    assert (asked.max_run, asked.keep_alive, asked.spot) == (3_600, 600, True)
    assert asked.role == "arn:aws:iam::1:role/physics"


def test_each_host_has_the_options_of_its_type_and_the_cluster_those_of_its_leader(remote: Simulation) -> None:
    submit(remote)
    (asked,) = requests(remote)
    assert [host.options for host in asked.hosts] == [CPU.options, GPU.options]
    assert asked.options == GPU.options, "the first host that helps no other"


def test_a_new_controller_asks_for_the_same_again(remote: Simulation) -> None:
    submit(remote)
    remote.kill_controller()
    remote.restart()
    remote.pass_time(1.0)
    first, *again = requests(remote)
    assert again
    assert all(each == first for each in again)


def test_a_type_without_options_asks_for_none(remote: Simulation) -> None:
    submit(remote, (InstanceGroup(instance_type="local"),))
    assert requests(remote)[0].options == {}


def test_options_of_the_job_replace_those_of_each_type_and_make_another_pool(remote: Simulation) -> None:
    remote.engine.capabilities = replace(remote.engine.capabilities, options=("partition", "time"))
    submit(remote, options={"partition": "debug", "time": "1h"})
    (asked,) = requests(remote)
    assert [host.options for host in asked.hosts] == [
        {"partition": "debug", "account": "physics", "time": "1h"},
        {"partition": "debug", "gres": "gpu:a100:1", "time": "1h"},
    ]
    assert asked.options == asked.hosts[1].options
    submit(remote)
    assert requests(remote)[1].cluster != asked.cluster
    assert requests(remote)[1].options == GPU.options


def test_an_option_that_the_engine_does_not_have_is_refused_and_launches_nothing(remote: Simulation) -> None:
    with pytest.raises(ValidationError, match=r"the engine fake has no option 'partition'\. It has no options\."):
        submit(remote, options={"partition": "debug"})
    assert requests(remote) == []


def test_a_value_that_the_engine_does_not_take_is_refused_and_launches_nothing(remote: Simulation) -> None:
    def refuse(options: Mapping[str, str]) -> None:
        raise RefusedError(f"--engine-option time: {options['time']!r} has no unit.")

    remote.engine.capabilities = replace(remote.engine.capabilities, options=("time",))
    remote.engine.check_options = refuse
    with pytest.raises(RefusedError, match="'60' has no unit"):
        submit(remote, options={"time": "60"})
    assert requests(remote) == []
