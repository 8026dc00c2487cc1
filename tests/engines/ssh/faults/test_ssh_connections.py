"""Connections that end, and settings of sshd that allow little: jobs run, or say which setting keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fault_helpers import break_connection, control_path, masters, waits_for

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld

pytestmark = pytest.mark.processes
NO_FORWARDING = "AllowStreamLocalForwarding no"
FEW_SESSIONS = "MaxSessions 2"


def test_a_stopped_sshd_keeps_nothing_from_an_open_connection_and_is_named_without_one(
    shared_controller: SshControllerWorld,
) -> None:
    world, one = shared_controller, shared_controller.world["one"]
    world.run()
    one.stop_sshd()
    world.run()
    one.stop_sshd(sessions=True)
    job = world.submit()
    waits_for(job, "smx-one accepts no connection on the port of ssh. Start sshd there")
    one.start_sshd()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


@pytest.mark.parametrize("options", [(FEW_SESSIONS,), (NO_FORWARDING,), (FEW_SESSIONS, NO_FORWARDING)])
@pytest.mark.usefixtures("empty_home")
def test_jobs_run_where_sshd_allows_little(shared_controller: SshControllerWorld, options: tuple[str, ...]) -> None:
    world, one = shared_controller, shared_controller.world["one"]
    one.set_sshd(*options)
    world.run("print('x' * 1_000_000)", keep_alive=600)
    assert world.run(keep_alive=0).why().startswith("Warm")


def test_a_killed_connection_leaves_a_stale_socket_and_the_job_of_it_runs_on(
    shared_controller: SshControllerWorld,
) -> None:
    world, one, gate = shared_controller, shared_controller.world["one"], shared_controller.gate()
    running = world.submit(gate=gate)
    running.until_it_says("begun")
    assert masters(world, one)
    break_connection(world, one)
    assert control_path(world, one).exists()
    world.run()
    gate.touch()
    assert (running.wait().state.value, running.runs()) == ("Completed", 1)


@pytest.mark.usefixtures("empty_home")
def test_two_jobs_at_once_run_where_sshd_allows_least(shared_controller: SshControllerWorld) -> None:
    world, gate = shared_controller, shared_controller.gate()
    world.world["one"].set_sshd(FEW_SESSIONS, NO_FORWARDING)
    first = world.submit(gate=gate)
    first.until_it_says("begun")
    world.run()
    gate.touch()
    assert (first.wait().state.value, first.runs()) == ("Completed", 1)
