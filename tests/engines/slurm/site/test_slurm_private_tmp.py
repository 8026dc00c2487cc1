"""A site that gives each job a ``/tmp`` of its own on its nodes, by Slurm's plug-in ``job_container/tmpfs``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE
from worlds.slurm.cluster_files import TMP_BASE, SlurmSite
from worlds.slurm.slurm_fixture import start_cluster
from worlds.ssh import disk

from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slurm_controller import SlurmControllerWorld
    from worlds.slurm.slurm_world import SlurmWorld
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.heavy("slurm")
FOLDER = f"jupyter_smx-{disk.UID}"
NODE = {"words": "--nodelist=box-one"}
COPIES = "import shutil\nshutil.copy(os.environ['SM_CHANNEL_ROWS'] + '/rows.csv', os.environ['SM_MODEL_DIR'])"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give a cluster whose jobs have their own ``/tmp``."""
    with start_cluster(tmp_path_factory, SlurmSite(private_tmp=True)) as world:
        yield world


@pytest.fixture
def rows(tmp_path: Path) -> tuple[Channel, ...]:
    """Give an input of one file."""
    (tmp_path / "rows.csv").write_text("1\n")
    return (Channel(name="rows", source=str(tmp_path / "rows.csv"), mode="File"),)


def in_job(slurm: SlurmWorld, job: str, words: str) -> list[str]:
    """Run a command line in a step of a job, and give the words of its output."""
    step = f"srun --jobid={job} --overlap --nodes=1 --ntasks=1 --mem=0 --quiet --chdir=/"
    return slurm.run(f"{step} sh -c {shlex.quote(words)}").split()


def folders(node: Machine) -> set[str]:
    """Name the jobs that have a ``/tmp`` on a node."""
    return {*node.run(f"ls {TMP_BASE}/{node.host_name}", root=True).stdout.split()}


def test_pools_are_warm_in_the_tmp_of_their_own_batch_job(
    slurm_controller: SlurmControllerWorld, rows: tuple[Channel, ...]
) -> None:
    slurm, node = slurm_controller.slurm, slurm_controller.slurm.node("box-one")
    fields = {"keep_alive": 600, "channels": rows, "engine_options": NODE}
    first = slurm_controller.run(COPIES, **fields)
    job = slurm_controller.job_id()
    assert {FOLDER, "mark"} <= {*in_job(slurm, job, "touch /tmp/mark; ls /tmp")}
    assert FOLDER not in f"{node.run('ls /tmp').stdout} {slurm.run('ls /tmp')}", "neither node nor login have it"
    again = slurm_controller.run(COPIES, **fields)
    assert again.why().startswith("Warm")
    for ran in (first, again):
        assert {each.name: each.size > 0 for each in ran.job().artifacts}["model.tar.gz"]
    slurm_controller.run(COPIES, **{**fields, "engine_options": {**NODE, "time": "20m"}})
    (other,) = {*slurm.run("squeue --noheader --format=%A").split()} - {job}
    seen = in_job(slurm, other, "ls /tmp")
    assert (FOLDER in seen, "mark" in seen) == (True, False), "on the same node"
    assert {job, other} == folders(node)
    slurm_controller.client.release(first.job().cluster)
    eventually_blocking(lambda: folders(node) == {other}, "the /tmp of the other job is gone", within=PATIENCE)
    assert FOLDER in in_job(slurm, other, "ls /tmp")
