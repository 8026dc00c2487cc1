"""Two controllers with one account, and a controller that is killed while it launches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ssh_controller import PATIENCE, SshControllerWorld
from world import VARIABLE, kill
from worlds.machines_controller import second_controller

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes
ENGINE = "ssh:smx-one"


@pytest.fixture
def other(
    ssh_controller: SshControllerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshControllerWorld]:
    """Give a controller with the same configuration and another data folder; both run."""
    ssh_controller.controller()
    variables = {VARIABLE: os.fspath(tmp_path / "other")}
    machines = ssh_controller.world
    with second_controller(monkeypatch, variables, lambda: SshControllerWorld(tmp_path, machines)) as world:
        yield world


def test_two_controllers_of_one_account_neither_see_nor_end_each_other_s_hosts(
    ssh_controller: SshControllerWorld, other: SshControllerWorld
) -> None:
    first, one, gate = ssh_controller, ssh_controller.world["one"], ssh_controller.gate()
    held = first.submit(gate=gate)
    held.until_it_says("begun")
    pool = other.run(keep_alive=600).job().cluster
    assert len(first.agents_of(one)) == 2
    assert other.sweep(ENGINE) == []
    assert first.sweep(ENGINE) == []
    kill(first.controller())
    assert other.sweep(ENGINE) == [], "although the owner of the host is away"
    assert [each.id for each in other.pools()] == [pool]
    assert len(first.agents_of(one)) == 2
    first.controller()
    gate.touch()
    assert (held.wait().state.value, held.runs()) == ("Completed", 1)
    assert other.run().why().startswith("Warm")


def test_a_controller_that_is_killed_while_it_launches_has_one_host_and_the_job_runs_once(
    ssh_controller: SshControllerWorld,
) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    one.delay(0.3)  # so that its questions are on the way when it is killed
    job = world.submit()
    eventually_blocking(lambda: world.clusters_of(one), "the launch is under way", within=PATIENCE)
    kill(world.controller())
    world.controller()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert [path.name for path in world.clusters_of(one)] == [job.job().cluster]
