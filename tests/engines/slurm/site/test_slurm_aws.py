"""A job on two nodes of a cluster uses botocore against the front of this machine, over the streams of its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds import machine_botocore
from worlds.ssh import disk

from jupyter_smx.aws_endpoint import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld


@pytest.fixture
def front(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[machine_botocore.Front]:
    nodes = [node for node in slurm_controller.slurm.nodes if node.name != "three"]
    for node in nodes:
        machine_botocore.install(node.home)
    configure("c.SmxAws.engine = 'slurm'")
    configure("c.SlurmEngine.submit_words = ['--exclude=box-three']")  # its Python may be too old for botocore
    own = machine_botocore.Front(monkeypatch)
    own.start()
    yield own
    process.stop_front()
    for node in nodes:
        machine_botocore.remove(node.home)


@pytest.mark.usefixtures("login")
def test_a_job_on_two_nodes_exchanges_objects_with_the_front(front: machine_botocore.Front) -> None:
    front.create("far-1", machine_botocore.script(disk.HOME), hosts=2)
    ended = front.wait("far-1")
    assert (ended["TrainingJobStatus"], ended.get("FailureReason")) == ("Completed", None), front.log("far-1")[-4:]
    lines = ["config True", "first 1500000 InProgress", "again 1500000 InProgress"]
    assert sorted(line for line in front.log("far-1") if line.startswith(("first", "again", "config"))) == sorted(
        [*lines, *lines]
    )
    for host in ("algo-1", "algo-2"):
        assert front.body(f"{host}again") == b"again" * 300_000
