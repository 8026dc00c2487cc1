"""What hosts of another machine get of it: GPUs that no other host there has, and limits that the agent reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.system.processes.environment import GPU_VARIABLES as GPU_VARIABLES_OF_AGENTS
from jupyter_smx.agent.system.resources import cgroups
from jupyter_smx.engines.base import HostSpec
from jupyter_smx.engines.machine.share import GPU_VARIABLES, assign_devices, device_variables, share_limits
from jupyter_smx.model.errors import RefusedError

PRESENT = ("0", "1", "2", "3")
GPUS = st.sets(st.sampled_from(PRESENT))


def hosts(*gpus: int) -> list[HostSpec]:
    return [
        HostSpec(host=f"algo-{number}", group="g", instance_type="lab.gpu", vcpus=1, gpus=count)
        for number, count in enumerate(gpus, 1)
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), GPUS)
def test_no_gpu_is_given_twice_and_each_host_has_as_many_as_its_type_says(wanted: list[int], held: set[str]) -> None:
    if sum(wanted) > len(PRESENT) - len(held):
        with pytest.raises(RefusedError) as caught:
            assign_devices(hosts(*wanted), PRESENT, held, "far1")
        assert caught.value.transient == (sum(wanted) <= len(PRESENT)), "waiting helps where the machine has so many"
        return
    found = assign_devices(hosts(*wanted), PRESENT, held, "far1")
    given_out = [gpu for row in found.values() for gpu in row]
    assert [len(row) for row in found.values()] == wanted
    assert len(set(given_out)) == len(given_out)
    assert not held & set(given_out)


def test_a_machine_without_a_free_gpu_says_how_many_there_are() -> None:
    with pytest.raises(RefusedError, match="far1 has 4 GPUs, 1 of them are free, and 2 are needed") as caught:
        assign_devices(hosts(2), PRESENT, {"0", "1", "2"}, "far1")
    assert caught.value.transient


def test_the_jobs_of_a_host_see_its_gpus_and_those_of_a_host_without_any_see_none() -> None:
    found = assign_devices(hosts(2, 0), PRESENT, {"1"}, "far1")
    assert device_variables(found["algo-1"], {}) == dict.fromkeys(GPU_VARIABLES_OF_AGENTS, "0,2")
    assert device_variables(found["algo-2"], {}) == dict.fromkeys(GPU_VARIABLES_OF_AGENTS, "")
    assert GPU_VARIABLES == GPU_VARIABLES_OF_AGENTS


def test_what_a_scheduler_gave_stands() -> None:
    assert device_variables(("0",), {"CUDA_VISIBLE_DEVICES": "3"}) == {}


def test_what_is_enforced_is_what_the_agent_reports_and_the_rest_has_a_reason() -> None:
    (host,) = hosts(0)
    bounded = HostSpec(host="algo-1", group="g", instance_type="lab.big", vcpus=8, memory=1 << 30)
    assert "reason" not in share_limits(bounded, ("cpu", "memory"), "unused")
    part = cgroups.load_limits(share_limits(bounded, ("cpu",), "this engine sets none"), "lab.big")
    assert cgroups.view(part) == {"cpus": 8, "reason": "this engine sets none"}
    assert part.note() == "memory of jobs are not limited here: this engine sets none."
    assert share_limits(host, ("cpu",)) == {"cpus": 1, "memory": 0, "whole": ["cpu"]}, "no number, no limit"
