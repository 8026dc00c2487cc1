"""A cluster whose Slurm takes no heterogeneous job: each instance group is a batch job of its own there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE
from worlds.slurm.cluster_files import SlurmSite
from worlds.slurm.slurm_fixture import start_cluster

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld
    from worlds.slurm.slurm_world import SlurmWorld

pytestmark = [pytest.mark.heavy("slurm"), pytest.mark.timeout(240)]
HOSTS = "import json, os\nprint(json.dumps([os.environ['SM_CURRENT_HOST'], json.loads(os.environ['SM_HOSTS'])]))"
GROUPS = (InstanceGroup(name="first"), InstanceGroup(name="second", instance_count=2))
FULL = "sbatch --parsable --nodes=2 --exclusive --time=30 --output=/dev/null --wrap='sleep 1800'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give a cluster without backfill scheduling."""
    with start_cluster(tmp_path_factory, SlurmSite(backfill=False)) as world:
        yield world


def groups_of_jobs(world: SlurmControllerWorld) -> list[str]:
    """Give the number of the group in the name of each job, sorted."""
    return sorted(name.partition(":")[2] for name in world.slurm.jobs() if name.startswith("smx-"))


def test_groups_wait_for_each_other_run_as_one_cluster_and_are_released_together(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.exclusive = True\nc.SlurmEngine.observe_interval = 2.0")
    slurm = slurm_controller.slurm
    other = slurm.run(FULL).strip()
    eventually_blocking(lambda: slurm.run(f"squeue --noheader --jobs={other} --format=%t").strip() == "R", "it runs")
    job = slurm_controller.submit(HOSTS, instance_groups=GROUPS, keep_alive=600)
    job.until(lambda seen: "waits for it" in seen.transitions[-1].status_message, "one group has its node")
    assert groups_of_jobs(slurm_controller) == ["0", "1"]
    slurm.run(f"scancel {other}")
    record = job.wait()
    assert record.state.value == "Completed", record.failure_reason
    hosts = ["algo-1", "algo-2", "algo-3"]
    logs = [slurm_controller.client.log(job.id, host, 0).data.decode() for host in hosts]
    assert [line for log in logs for line in log.splitlines() if line.startswith("[")] == [
        json.dumps([host, hosts]) for host in hosts
    ]
    again = slurm_controller.run(HOSTS, instance_groups=GROUPS, keep_alive=600)
    assert again.why().startswith("Warm")
    (pool,) = slurm_controller.pools()
    slurm_controller.client.release(pool.id)
    eventually_blocking(lambda: not groups_of_jobs(slurm_controller), "both jobs have ended", within=PATIENCE)


def test_with_the_job_of_one_group_the_cluster_is_lost(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.observe_interval = 2.0")
    slurm_controller.run(HOSTS, instance_groups=GROUPS, keep_alive=600)
    rows = [row.split() for row in slurm_controller.slurm.run("squeue --noheader --format='%i %j'").splitlines()]
    (second,) = [job for job, name in rows if name.endswith(":1")]
    slurm_controller.slurm.run(f"scancel {second}", root=True)
    eventually_blocking(lambda: not slurm_controller.pools(), "the pool is gone", within=PATIENCE)
    eventually_blocking(lambda: not groups_of_jobs(slurm_controller), "no job is left", within=PATIENCE)
