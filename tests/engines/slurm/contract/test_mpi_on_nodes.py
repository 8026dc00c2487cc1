"""``--distribution mpi`` with real Open MPI on nodes of a cluster: without srun, by address, with the job's key."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from pytorch import with_mpi4py
from worlds.machine_libraries import packages_on
from worlds.ranks_meet import REDUCE, check_reduced

from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from slurm_controller import SlurmControllerWorld

pytestmark = [
    pytest.mark.heavy("slurm"),
    pytest.mark.skipif(
        shutil.which("mpirun") is None, reason="Open MPI is not installed: apt-get install openmpi-bin libopenmpi-dev"
    ),
]


def test_two_ranks_on_each_of_two_nodes_reduce_together_also_on_warm_hosts(
    slurm_controller: SlurmControllerWorld,
) -> None:
    with packages_on(slurm_controller.slurm.nodes, with_mpi4py(), "mpi4py") as nodes:
        wish = {
            "distribution": Distribution(runner="mpi", processes=2),
            "instance_groups": (InstanceGroup(instance_count=2),),
            "engine_options": {"words": "--nodelist=" + ",".join(node.host_name for node in nodes)},
        }
        check_reduced(slurm_controller.submit(REDUCE, keep_alive=600, **wish))
        second = slurm_controller.submit(REDUCE, keep_alive=600, **wish)
        check_reduced(second)
        assert second.why().startswith("Warm")
