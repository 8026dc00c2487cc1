"""``--distribution torchrun`` with real PyTorch: two hosts on two machines, with two ranks each, reduce over gloo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pytorch import interpreter
from worlds.machine_libraries import packages_on

from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh_controller import SshControllerWorld
    from worlds.ssh.machine import Machine

pytestmark = [
    pytest.mark.heavy("ssh"),
    pytest.mark.timeout(400),  # the first test of a checkout may have to install PyTorch
]
REDUCE = """
import json, os, socket
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
leader = socket.gethostbyname(os.environ["MASTER_ADDR"])
print(json.dumps(["rank", dist.get_rank(), total.item(), leader, os.environ["GLOO_SOCKET_IFNAME"]]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def machines(ssh_controller: SshControllerWorld) -> Iterator[list[Machine]]:
    """Give the two machines whose Python has PyTorch now."""
    with packages_on(ssh_controller.machines, interpreter(), "torch") as found:
        yield found


def test_two_ranks_on_each_of_two_machines_reduce_together(
    ssh_controller: SshControllerWorld, machines: list[Machine]
) -> None:
    job = ssh_controller.submit(
        REDUCE,
        engine="ssh",
        instance_groups=(InstanceGroup(instance_count=2),),
        distribution=Distribution(runner="torchrun", processes=2),
    )
    record = job.wait()
    logs = [ssh_controller.client.log(job.id, host, 0).data.decode() for host in ("algo-1", "algo-2")]
    assert record.state.value == "Completed", (record.failure_reason, *logs)
    seen = [sorted(json.loads(line)[1:] for line in log.splitlines() if line.startswith('["rank"')) for log in logs]
    leader = [machines[0].address, "eth0"]
    assert seen == [[[0, 1111.0, *leader], [1, 1111.0, *leader]], [[2, 1111.0, *leader], [3, 1111.0, *leader]]]
    for machine in machines:
        assert record.cluster in [path.name for path in ssh_controller.clusters_of(machine)]
