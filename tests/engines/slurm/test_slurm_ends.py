"""Ends that Slurm brings: cancelled by somebody, out of time, a node that fails; and a scheduler that is away."""

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
import signal, sys
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: signal.pause()
"""


def test_a_job_whose_allocation_is_cancelled_says_so(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.submit(gate=slurm_controller.gate())
    job.until_it_says("begun")
    slurm_controller.slurm.run(f"scancel {slurm_controller.job_id()}", root=True)
    record = job.wait()
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
    assert job.wait().state.value in ("Completed", "Failed", "Stopped")
    assert "saved" in job.log()


def test_a_warm_pool_works_while_the_scheduler_is_away(slurm_controller: SlurmControllerWorld) -> None:
    slurm_controller.run(keep_alive=600)
    login = slurm_controller.slurm.login
    slurm_controller.slurm.freeze_daemon(login, "slurmctld")
    try:
        begin = time.monotonic()
        again = slurm_controller.run(keep_alive=600)
        assert time.monotonic() - begin < 2.0
    finally:
        slurm_controller.slurm.thaw_daemon(login, "slurmctld")
    assert again.why().startswith("Warm")


@pytest.mark.heavy("slurm")
def test_a_node_that_fails_ends_the_pool_with_slurms_word(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.submit(gate=slurm_controller.gate())
    job.until_it_says("begun")
    (name,) = slurm_controller.pools()[0].machines
    node = slurm_controller.slurm.node(name)
    node.kill()
    try:
        job.until(lambda seen: seen.ended_at is not None, "Slurm noticed")
    finally:
        node.start()
        slurm_controller.slurm.start_daemon(node, "munged")
        slurm_controller.slurm.start_daemon(node, "slurmd")
        eventually_blocking(lambda: slurm_controller.slurm.idle_nodes() == 3, "it is back", within=PATIENCE)
