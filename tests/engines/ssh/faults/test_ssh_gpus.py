"""A job has the CPUs and GPUs of its instance type on the machine, whatever the controller's machine has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from fault_helpers import waits_for

from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from ssh_controller import SshControllerWorld

pytestmark = pytest.mark.processes
ALL = (InstanceGroup(instance_type="smx-one"),)
SHOW = """\
names = ("SM_NUM_CPUS", "SM_NUM_GPUS", "CUDA_VISIBLE_DEVICES")
print("resources", *(os.environ[name] for name in names), flush=True)
"""


def test_a_gpu_of_a_machine_is_given_to_one_job_at_a_time(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None]
) -> None:
    configure(
        "c.ControllerApp.cpus = 2\nc.ControllerApp.gpus = 0\n"
        "c.SshEngine.machines = {'smx-one': {'slots': 2, 'cpus': 8, 'gpus': ['3']}}"
    )
    world, gate = ssh_controller, ssh_controller.gate()
    first = world.submit(SHOW, gate=gate, instance_groups=ALL)
    first.until_it_says("begun")
    second = world.submit(SHOW, instance_groups=ALL)
    waits_for(second, "No GPU of smx-one is free")
    assert second.runs() == 0
    gate.touch()
    for job in (first, second):
        assert (job.wait().state.value, job.runs()) == ("Completed", 1)
        assert re.findall(r"resources (.*)", job.log()) == ["8 1 3"]
