"""A cluster with one home and with accounts: results outlive an allocation, and refusals name accounts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE
from world import kill
from worlds.slurm.cluster_files import SlurmSite
from worlds.slurm.slurm_fixture import start_cluster
from worlds.ssh import disk

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld
    from worlds.slurm.slurm_world import SlurmWorld

pytestmark = pytest.mark.heavy("slurm")
UV = Path(sys.executable).parent / "uv"
MODEL = "open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('x' * 1000)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give a cluster whose machines share the home, with accounts."""
    with start_cluster(tmp_path_factory, SlurmSite(shared_home=True, accounting=True)) as world:
        yield world


def test_a_job_that_ended_with_its_allocation_while_the_controller_was_away_is_completed(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.shared_home = True")
    gate = slurm_controller.gate()
    job = slurm_controller.submit(MODEL, gate=gate)
    job.until_it_says("begun")
    kill(slurm_controller.controller())
    gate.touch()
    eventually_blocking(lambda: not slurm_controller.slurm.jobs(), "the allocation has ended", within=120.0)
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert job.log() == "begun\ndone\n"


def test_a_job_whose_allocation_is_cancelled_while_the_controller_is_away_keeps_its_results(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.shared_home = True")
    slurm, node, gate = slurm_controller.slurm, slurm_controller.slurm.node("box-one"), slurm_controller.gate()
    job = slurm_controller.submit(MODEL, gate=gate, engine_options={"words": "--nodelist=box-one"})
    job.until_it_says("begun")
    kill(slurm_controller.controller())
    gate.touch()
    ends = f"tmp/jupyter_smx-{disk.UID}/clusters/*/algo-1/spool/{job.id}/end.json"
    eventually_blocking(lambda: [*node.root.glob(ends)], "the job has ended", within=PATIENCE)
    slurm.run("scancel --user=far-user")
    eventually_blocking(lambda: not slurm.jobs(), "the allocation has ended", within=PATIENCE)
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert {artifact.name: artifact.size > 0 for artifact in job.job().artifacts}["model.tar.gz"]


def test_a_refusal_for_want_of_an_account_names_those_of_the_user(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.account = 'physics'")
    record = slurm_controller.submit().wait()
    assert record.state.value == "Failed"
    assert "lab" in record.failure_reason


def test_a_cancelled_job_says_by_whom(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.submit(gate=slurm_controller.gate())
    job.until_it_says("begun")
    slurm_controller.slurm.run(f"scancel {slurm_controller.job_id()}", root=True)
    record = job.wait()
    assert "cancelled by" in record.failure_reason, record


@pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long")
def test_requirements_are_installed_once_for_all_nodes(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], tmp_path: Path
) -> None:
    configure("c.SlurmEngine.shared_home = True")
    write_wheel(tmp_path / "wheels", "alpha", "1.0")
    login = slurm_controller.slurm.login
    shutil.copy(UV, login.home / "uv")
    login.run("mkdir -p .local/bin && mv -f uv .local/bin")
    job = slurm_controller.run(
        "import alpha, sys\nprint(alpha.version, sys.prefix)",
        requirements=("--no-index", f"--find-links {tmp_path / 'wheels'}", "alpha"),
        instance_groups=(InstanceGroup(instance_count=2),),
        engine_options={"words": "--exclude=box-three"},  # its Python is another one
    )
    logs = [slurm_controller.client.log(job.id, host, 0).data.decode() for host in ("algo-1", "algo-2")]
    [environment] = (login.home / DEFAULT_FOLDER.removeprefix("~/") / "environments").iterdir()
    assert all(f"1.0 {disk.HOME}" in log and environment.name in log for log in logs), logs
