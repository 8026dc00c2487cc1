"""``--distribution torchrun`` with real PyTorch: two hosts on two nodes, with two ranks each, reduce over gloo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pytorch import interpreter
from worlds.machine_libraries import packages_on

from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from slurm_controller import SlurmControllerWorld

pytestmark = [
    pytest.mark.heavy("slurm"),
    pytest.mark.timeout(400),  # the first test of a checkout may have to install PyTorch
]
REDUCE = """
import json, os, socket
import torch
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
total = torch.tensor([10.0 ** rank])
torch.distributed.all_reduce(total)
print(json.dumps(["rank", rank, total.item(), socket.gethostbyname(os.environ["MASTER_ADDR"])]), flush=True)
torch.distributed.destroy_process_group()
"""


def test_two_ranks_on_each_of_two_nodes_reduce_together(slurm_controller: SlurmControllerWorld) -> None:
    with packages_on(slurm_controller.slurm.nodes, interpreter(), "torch") as nodes:
        job = slurm_controller.submit(
            REDUCE,
            instance_groups=(InstanceGroup(instance_count=2),),
            distribution=Distribution(runner="torchrun", processes=2),
            engine_options={"words": "--nodelist=" + ",".join(node.host_name for node in nodes)},
        )
        record = job.wait()
        logs = [slurm_controller.client.log(job.id, host, 0).data.decode() for host in ("algo-1", "algo-2")]
        assert record.state.value == "Completed", (record.failure_reason, *logs)
        seen = [sorted(json.loads(line)[1:] for line in log.splitlines() if line.startswith('["rank"')) for log in logs]
        assert len({leader for host in seen for *_, leader in host}) == 1
        assert {host[0][2] for host in seen} < {node.address for node in nodes}
        assert [[rank[:2] for rank in host] for host in seen] == [
            [[0, 1111.0], [1, 1111.0]],
            [[2, 1111.0], [3, 1111.0]],
        ]
