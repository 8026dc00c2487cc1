"""The test world for Slurm is a cluster: jobs run on its nodes as the account, and nothing of this machine is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worlds.slurm.slurm_world import SlurmWorld


def test_a_job_runs_on_each_node_as_the_account(slurm_world: SlurmWorld) -> None:
    said = slurm_world.run("srun --nodes=3 --quiet --chdir=/ sh -c 'echo $(hostname) $(id -un) $PWD'")
    assert sorted(said.splitlines()) == [f"box-{name} far-user /" for name in ("one", "three", "two")]


def test_nodes_share_no_folder(slurm_world: SlurmWorld) -> None:
    slurm_world.run("echo here > ~/shared")
    said = slurm_world.run("srun --nodes=3 --quiet --chdir=/ sh -c 'cat ~/shared 2>/dev/null || echo missing'")
    assert said.split() == ["missing"] * 3


def test_the_shell_in_place_of_sh_is_one_of_the_login_machine(slurm_world: SlurmWorld) -> None:
    import subprocess  # noqa: PLC0415 - this test alone starts a process of this machine

    done = subprocess.run(
        [slurm_world.programs / "sh", "-c", "hostname; id -un; sbatch --version"],
        capture_output=True,
        text=True,
        check=True,
    )
    host, user, version = done.stdout.splitlines()
    assert (host, user) == ("box-login", "far-user")
    assert version.startswith("slurm")


def test_a_frozen_scheduler_answers_again(slurm_world: SlurmWorld) -> None:
    login = slurm_world.login
    slurm_world.freeze_daemon(login, "slurmctld")
    slurm_world.thaw_daemon(login, "slurmctld")
    assert slurm_world.idle_nodes() == 3
