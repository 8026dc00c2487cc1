"""``--distribution torchrun`` with real PyTorch: two hosts on two machines, with two ranks each, reduce over gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytorch import interpreter

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
MOUNT = Path(__file__).with_name("namespace_mount.py")
FOLDER = "/opt/torch"
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
    """Give the two machines whose Python has PyTorch now, which lies on this machine's disk."""
    python = interpreter()
    words = [python, "-c", "import sys, torch; print(torch.__path__[0], '%d.%d' % sys.version_info[:2])"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    folder, version = Path(said[0]).parent, said[1]
    found = [machine for machine in ssh_controller.machines if machine.plan.version == version][:2]
    assert len(found) == 2, f"no two machines have the Python {version}"
    for machine in found:
        (machine.root / FOLDER[1:]).mkdir(exist_ok=True)
        subprocess.run([sys.executable, MOUNT, folder, str(machine.pid), FOLDER], check=True)
        site_packages(machine, version).joinpath("torch.pth").write_text(f"{FOLDER}\n", encoding="utf-8")
    yield found
    for machine in found:
        site_packages(machine, version).joinpath("torch.pth").unlink()
        machine.run(f"umount -l {FOLDER}", root=True)


def site_packages(machine: Machine, version: str) -> Path:
    return machine.root / f"opt/python/lib/python{version}/site-packages"


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
