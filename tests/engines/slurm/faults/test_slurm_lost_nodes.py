"""Nodes that fail under several hosts, and nodes on which no host can begin: whole clusters or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE
from worlds.slurm.cluster_files import SLURMD_TIMEOUT

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from slurm_controller import SlurmControllerWorld

pytestmark = pytest.mark.heavy("slurm")


def test_a_node_that_fails_frees_the_others_and_the_job_is_tried_once_more_elsewhere(
    slurm_controller: SlurmControllerWorld,
) -> None:
    slurm, gate = slurm_controller.slurm, slurm_controller.gate()
    job = slurm_controller.submit(gate=gate, retries=1, instance_groups=(InstanceGroup(instance_count=2),))
    eventually_blocking(lambda: job.runs() == 2, "both hosts began", within=PATIENCE)
    first = {*slurm_controller.pools()[0].machines}
    node = slurm.node(max(first))
    node.kill()
    try:
        # Slurm itself takes SLURMD_TIMEOUT and one of its rounds, which are long on a busy machine.
        eventually_blocking(lambda: job.job().attempt == 2, "Slurm noticed", within=SLURMD_TIMEOUT + 2 * PATIENCE)
        eventually_blocking(lambda: job.runs() >= 3, "it began again", within=PATIENCE)
        assert "node of the allocation failed" in job.job().attempts[0].reason
        second = {*slurm_controller.pools()[0].machines}
        assert node.host_name not in second
        gate.touch()
        assert job.wait().state.value == "Completed"
        assert job.job().attempt == 2
    finally:
        node.start()
        slurm.start_daemon(node, "munged")
        slurm.start_daemon(node, "slurmd")
        eventually_blocking(lambda: slurm.idle_nodes() == 3, "it is back", within=PATIENCE)


def test_a_node_without_python_is_named_and_no_host_of_the_cluster_stays(
    slurm_controller: SlurmControllerWorld,
) -> None:
    slurm = slurm_controller.slurm
    slurm.node("box-two").hide_python()
    job = slurm_controller.submit(instance_groups=(InstanceGroup(instance_count=3),))
    record = job.wait()
    assert record.state.value == "Failed"
    assert "box-two: there is no Python" in record.failure_reason
    assert "c.SlurmEngine.python" in record.failure_reason
    assert job.runs() == 0
    eventually_blocking(lambda: not slurm.jobs(), "no job is left", within=PATIENCE)
    assert not slurm_controller.agents()
