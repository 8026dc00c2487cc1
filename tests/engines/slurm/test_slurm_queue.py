"""Jobs wait in the queue of Slurm with its reason, keep their place, and are refused if they can never run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE
from world import kill

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld
    from world import Ran
    from worlds.slurm.slurm_world import SlurmWorld

    from jupyter_smx.model.records.job import Job

WAITS = "Waiting at the engine slurm: "


def message(job: Job) -> str:
    return job.transitions[-1].status_message


def until_it_waits(job: Ran, words: str) -> None:
    job.until(lambda seen: words in message(seen), words)


@pytest.fixture
def full(cluster: SlurmWorld) -> Iterator[Callable[[], None]]:
    """Fill all nodes with a job of another kind; give what ends it."""
    job = cluster.run(
        "sbatch --parsable --nodes=3 --exclusive --time=30 --output=/dev/null --wrap='sleep 1800'"
    ).strip()
    eventually_blocking(lambda: cluster.run(f"squeue --noheader --jobs={job} --format=%t").strip() == "R", "it runs")

    def end() -> None:
        cluster.run(f"scancel {job}")

    yield end
    end()


def own_jobs(world: SlurmControllerWorld) -> list[str]:
    rows = world.slurm.run("squeue --noheader --states=PENDING,RUNNING --format='%i %j'").splitlines()
    return [row.split()[0] for row in rows if row.split()[1].startswith("smx-")]


def test_a_job_waits_with_slurms_reason_and_keeps_its_place_through_a_restart(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], full: Callable[[], None]
) -> None:
    configure("c.ControllerApp.launch_limit = 5.0")
    job = slurm_controller.submit()
    until_it_waits(job, f"{WAITS}Resources")
    until_it_waits(job, "expected to start at ")
    before = own_jobs(slurm_controller)
    kill(slurm_controller.controller())
    until_it_waits(job, f"{WAITS}Resources")
    slurm_controller.controller()
    assert own_jobs(slurm_controller) == before
    full()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


def test_a_stop_cancels_what_waits(shared_controller: SlurmControllerWorld, full: Callable[[], None]) -> None:
    del full
    job = shared_controller.submit()
    until_it_waits(job, WAITS)
    shared_controller.client.stop(job.id)
    assert job.wait().state.value == "Stopped"
    eventually_blocking(lambda: not own_jobs(shared_controller), "the job is cancelled", within=5.0)


def test_max_wait_cancels_what_waits(shared_controller: SlurmControllerWorld, full: Callable[[], None]) -> None:
    del full
    job = shared_controller.submit(spot=True, max_run=3, max_wait=3)
    assert job.wait().state.value == "MaxWaitTimeExceeded"
    eventually_blocking(lambda: not own_jobs(shared_controller), "the job is cancelled", within=PATIENCE)


def test_more_hosts_than_there_are_nodes_are_refused_with_slurms_reason(
    shared_controller: SlurmControllerWorld,
) -> None:
    began = time.monotonic()
    job = shared_controller.submit(instance_groups=(InstanceGroup(instance_count=9),))
    record = job.wait()
    assert record.state.value == "Failed"
    reasons = ("PartitionConfig", "PartitionNodeLimit")  # Slurm gives the one or the other
    assert any(reason in record.failure_reason for reason in reasons), record.failure_reason
    assert "Use fewer hosts" in record.failure_reason
    assert time.monotonic() - began < 30.0
    assert not own_jobs(shared_controller)


def test_an_unknown_partition_is_refused(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.partition = 'nowhere'")
    record = slurm_controller.submit().wait()
    assert record.state.value == "Failed"
    assert "partition" in record.failure_reason.lower()
    assert "sinfo" in record.failure_reason


def test_a_submission_that_timed_out_is_found_by_its_name(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.command_timeout = 2.0")
    slurm_controller.run(keep_alive=0)  # the facts of the cluster are known
    eventually_blocking(lambda: not slurm_controller.slurm.jobs(), "the first job has ended", within=PATIENCE)
    login = slurm_controller.slurm.login
    slurm_controller.slurm.freeze_daemon(login, "slurmctld")
    try:
        job = slurm_controller.submit()
        until_it_waits(job, WAITS)
    finally:
        slurm_controller.slurm.thaw_daemon(login, "slurmctld")
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert len(slurm_controller.submissions()) == 2
