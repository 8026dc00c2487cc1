"""Ends that Slurm brings: cancelled, out of time, a node that fails; and a scheduler that is away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from slurm_controller import PATIENCE

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_controller import SlurmControllerWorld

SAVES = """
import signal, sys, threading
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
threading.Event().wait(0.6)
print("ready", flush=True)
while True: signal.pause()
"""


def test_a_job_whose_allocation_is_cancelled_saves_its_work_and_says_so(
    shared_controller: SlurmControllerWorld,
) -> None:
    job = shared_controller.submit(SAVES)
    job.until_it_says("ready")
    began = time.monotonic()
    shared_controller.slurm.run(f"scancel {shared_controller.job_id()}", root=True)
    record = job.wait()
    assert time.monotonic() - began < 5.0
    assert "saved" in job.log()
    assert record.state.value == "Failed"
    assert "cancelled" in record.failure_reason


@pytest.mark.heavy("slurm")
@pytest.mark.timeout(240)
def test_a_job_gets_sigterm_before_its_allocation_ends(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.max_allocation = 120.0\nc.SlurmEngine.notice_time = 45.0")
    job = slurm_controller.submit(SAVES)
    job.until_it_says("ready")
    eventually_blocking(lambda: "saved" in job.log(), "the job saved its work", within=100.0)
    record = job.wait()
    assert "saved" in job.log()
    assert (record.state.value, "time limit" in record.failure_reason) == ("Failed", True), record.failure_reason


def test_a_warm_pool_works_while_the_scheduler_is_away(shared_controller: SlurmControllerWorld) -> None:
    shared_controller.run(keep_alive=600)
    login = shared_controller.slurm.login
    shared_controller.slurm.freeze_daemon(login, "slurmctld")
    try:
        begin = time.monotonic()
        again = shared_controller.run(keep_alive=600)
        assert time.monotonic() - begin < 2.0
    finally:
        shared_controller.slurm.thaw_daemon(login, "slurmctld")
    assert again.why().startswith("Warm")


@pytest.mark.heavy("slurm")
def test_a_spot_job_whose_nodes_are_taken_away_saves_its_work_and_begins_again(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.partition = 'spare'")
    slurm = slurm_controller.slurm
    job = slurm_controller.submit(SAVES, spot=True)
    job.until_it_says("ready")
    urgent = "sbatch --parsable --partition=urgent --nodes=3 --exclusive --time=5 --output=/dev/null --wrap='sleep 300'"
    other = slurm.run(urgent).strip()
    try:
        eventually_blocking(lambda: "saved" in job.log(), "the job saved its work", within=PATIENCE)
        job.until(lambda seen: "Waiting at the engine slurm" in seen.transitions[-1].status_message, "it waits again")
    finally:
        slurm.run(f"scancel {other}")
    eventually_blocking(lambda: job.runs() == 2, "it began again", within=PATIENCE)
    slurm_controller.client.stop(job.id)


@pytest.mark.heavy("slurm")
def test_a_job_without_spot_whose_nodes_are_taken_away_fails_with_slurms_word(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.partition = 'spare'")
    slurm = slurm_controller.slurm
    job = slurm_controller.submit(SAVES)
    job.until_it_says("ready")
    urgent = "sbatch --parsable --partition=urgent --nodes=3 --exclusive --time=5 --output=/dev/null --wrap='sleep 300'"
    other = slurm.run(urgent).strip()
    record = job.wait()
    slurm.run(f"scancel {other}")
    assert record.state.value == "Failed"
    assert "higher priority" in record.failure_reason


@pytest.mark.heavy("slurm")
def test_a_node_that_fails_ends_the_pool_with_slurms_word(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.submit(gate=slurm_controller.gate())
    job.until_it_says("begun")
    (name,) = slurm_controller.pools()[0].machines
    node = slurm_controller.slurm.node(name)
    node.kill()
    try:
        record = job.until(lambda seen: seen.ended_at is not None, "Slurm noticed")
        assert (record.state.value, job.runs()) == ("Failed", 1)
        assert "A node of the allocation failed" in record.failure_reason
    finally:
        node.start()
        slurm_controller.slurm.start_daemon(node, "munged")
        slurm_controller.slurm.start_daemon(node, "slurmd")
        eventually_blocking(lambda: slurm_controller.slurm.idle_nodes() == 3, "it is back", within=PATIENCE)


@pytest.mark.heavy("slurm")
def test_a_job_that_slurm_queues_again_begins_again_in_another_one(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.observe_interval = 2.0")
    slurm = slurm_controller.slurm
    job = slurm_controller.submit(SAVES, spot=True)
    job.until_it_says("ready")
    first = slurm_controller.job_id()
    slurm.run(f"scontrol update JobId={first} Requeue=1", root=True)  # allocations are submitted without
    slurm.run(f"scontrol requeue {first}", root=True)
    job.until(lambda seen: seen.attempt == 2 and seen.started_at is not None, "it began again")
    job.until_it_says("ready")
    assert set(slurm.run("squeue --noheader --format=%A").split()) - {first}, "the first one may be there still"
    slurm_controller.client.stop(job.id)
