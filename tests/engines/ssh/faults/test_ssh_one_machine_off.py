"""One of several machines is off: jobs start and end on the others at once, and say which machine is silent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fault_helpers import break_connection, machine_of, waits_for

from jupyter_smx.engines.remote.contacts import FRESH
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from ssh_controller import Gate, SshControllerWorld
    from world import Ran
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.processes
LIMIT = 15.0
"""Seconds: five where nothing else runs, and less than a connection may take, for which each launch would wait."""
CONFIGURATION = """
c.SshEngine.connect_timeout = 20.0
c.SshEngine.machines = {"smx-one": {"slots": 3}, "smx-two": {"slots": 1}, "smx-three": {"slots": 1}}
"""
"""The first machine has the most room, so that hosts go there while it answers."""


def stop_sshd(machine: Machine) -> None:
    machine.stop_sshd(sessions=True)


def cut_network(machine: Machine) -> None:
    machine.cut()


def freeze(machine: Machine) -> None:
    machine.freeze()


def begin(world: SshControllerWorld, gate: Gate) -> tuple[Ran, str]:
    """Start a job within the limit; gives it with the machine of its host."""
    began = time.monotonic()
    job = world.submit(gate=gate, engine="ssh")
    job.until_it_says("begun")
    assert time.monotonic() - began < LIMIT
    return job, machine_of(world, job).name


def check_round(world: SshControllerWorld, turn_off: Callable[[Machine], None]) -> None:
    """Run jobs while the first machine is off, and one on it when it is on again."""
    one, gate, other_gate = world.world["one"], world.gate(), world.gate()
    turn_off(one)
    off_at = time.monotonic()
    eventually_blocking(lambda: time.monotonic() > off_at + FRESH, "its last answer is no news any more")
    (first, on_first), (second, on_second) = begin(world, gate), begin(world, other_gate)
    assert {on_first, on_second} == {"two", "three"}
    third = world.submit(gate=other_gate, engine="ssh")
    waits_for(third, "smx-one is not reachable since")
    gate.touch()
    cluster = first.wait().cluster
    ended_at = time.monotonic()
    eventually_blocking(lambda: cluster not in {pool.id for pool in world.pools()}, "its host is released")
    assert time.monotonic() - ended_at < LIMIT
    third.until_it_says("begun")
    fourth = world.submit(gate=other_gate, engine="ssh")
    waits_for(fourth, "smx-one is not reachable since")
    world.world.reset()
    break_connection(world, one)  # one that is under way would try again in a while
    fourth.until_it_says("begun")
    assert machine_of(world, fourth) is one
    other_gate.touch()
    assert [(job.wait().state.value, job.runs()) for job in (first, second, third, fourth)] == [("Completed", 1)] * 4


@pytest.mark.timeout(300)
def test_jobs_begin_and_end_at_once_while_one_of_three_machines_is_off(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None]
) -> None:
    configure(CONFIGURATION)
    world = ssh_controller
    is_first = lambda: machine_of(world, world.run(engine="ssh")) is world.world["one"]  # noqa: E731
    eventually_blocking(is_first, "the first machine has answered", within=60)
    for turn_off in (stop_sshd, cut_network, freeze):
        check_round(world, turn_off)
