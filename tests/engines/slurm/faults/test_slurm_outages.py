"""What Slurm's programs are asked, and what daemons that end or do not answer change: nothing that runs."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from login_programs import FOLDER, LoginPrograms
from slurm_controller import PATIENCE
from world import kill
from worlds.ssh import disk

from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slurm_controller import SlurmControllerWorld
    from worlds.slurm.slurm_world import SlurmWorld
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.heavy("slurm")
KEEP_ALIVE = 60
"""Seconds; results of the last job are held for as long without a controller."""


@pytest.fixture
def programs(slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]) -> LoginPrograms:
    """Give the programs that the controller runs."""
    configure(f"c.SlurmEngine.programs = {FOLDER!r}")
    return LoginPrograms(slurm_controller.slurm.login)


def restart(slurm: SlurmWorld, machine: Machine, daemon: str) -> None:
    """End a daemon as its service does, and start it again."""
    for pid in slurm.daemon_pids(machine, daemon):
        os.kill(pid, signal.SIGTERM)
    eventually_blocking(lambda: not slurm.daemon_pids(machine, daemon), f"{daemon} has ended", within=PATIENCE)
    slurm.start_daemon(machine, daemon)


def test_jobs_of_a_warm_pool_run_no_program_of_slurm(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None], programs: LoginPrograms, tmp_path: Path
) -> None:
    configure("c.SlurmEngine.observe_interval = 600.0")
    (tmp_path / "rows.csv").write_text("1\n")
    channels = (Channel(name="rows", source=str(tmp_path / "rows.csv"), mode="File"),)
    body = "import shutil\nshutil.copy(os.environ['SM_CHANNEL_ROWS'] + '/rows.csv', os.environ['SM_MODEL_DIR'])"
    slurm_controller.run(body, keep_alive=600, channels=channels)
    before = programs.calls()
    assert {"sbatch", "squeue", "srun"} <= {*before}
    for _ in range(5):
        assert slurm_controller.run(body, keep_alive=600, channels=channels).why().startswith("Warm")
    assert programs.calls() == before


def test_a_submission_that_slurm_takes_without_an_answer_is_the_only_one(
    slurm_controller: SlurmControllerWorld, programs: LoginPrograms
) -> None:
    slurm = slurm_controller.slurm
    programs.hold("sbatch")
    job = slurm_controller.submit()
    eventually_blocking(lambda: "sbatch" in programs.calls(), "it is submitted", within=PATIENCE)
    slurm.freeze_daemon(slurm.login, "slurmctld")
    try:
        programs.let_go("sbatch")
        job.until(lambda seen: "answer" in seen.transitions[-1].status_message, "Slurm gives no answer")
    finally:
        slurm.thaw_daemon(slurm.login, "slurmctld")
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert programs.calls().count("sbatch") == 1, "it is found by its name"
    assert len(slurm_controller.submissions()) == 1


def test_a_job_and_its_pool_outlive_a_restart_of_the_daemons(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.SlurmEngine.observe_interval = 1.0")
    slurm, gate = slurm_controller.slurm, slurm_controller.gate()
    job = slurm_controller.submit(gate=gate, keep_alive=600)
    job.until_it_says("begun")
    number = slurm_controller.job_id()
    restart(slurm, slurm.login, "slurmctld")
    for node in slurm.nodes:
        restart(slurm, node, "slurmd")
    began = time.monotonic()
    gate.touch()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert slurm_controller.run(keep_alive=600).why().startswith("Warm")
    assert time.monotonic() - began < 10.0
    assert slurm_controller.job_id() == number


@pytest.mark.timeout(240)
def test_a_pool_ends_with_its_keep_alive_although_no_controller_lives(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.run(keep_alive=KEEP_ALIVE)
    assert slurm_controller.slurm.jobs()
    results = f"tmp/jupyter_smx-{disk.UID}/clusters/*/algo-1/spool/{job.id}"
    # The controller lets the host delete them a moment after the end; a host that has some keeps its node longer.
    eventually_blocking(
        lambda: not any([*node.root.glob(results)] for node in slurm_controller.slurm.nodes), "the results are here"
    )
    kill(slurm_controller.controller())
    within = KEEP_ALIVE + 30.0
    eventually_blocking(lambda: not slurm_controller.slurm.jobs(), "the allocation has ended", within=within)
