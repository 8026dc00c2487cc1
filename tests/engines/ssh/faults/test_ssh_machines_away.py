"""Machines that are off or out of reach: jobs go to the others, run on, or end as their records say."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fault_helpers import break_connection, is_reachable_again, is_unreachable, remark, waits_for
from ssh_controller import PATIENCE, living
from world import frozen

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from ssh_controller import SshControllerWorld
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.processes
TICKS = """\
for number in range(100_000):
    print("tick", number, flush=True)
    if os.path.exists(_home + "/{gate}"):
        break
    time.sleep(0.1)
"""
RELEASE_LIMIT = 5.0


def turn_off(world: SshControllerWorld, machine: Machine) -> None:
    machine.kill()
    break_connection(world, machine)


def cut_off(world: SshControllerWorld, machine: Machine) -> None:
    machine.cut()
    break_connection(world, machine)


@pytest.fixture(scope="module")
def configuration_of_module() -> str:
    machines = {f"smx-{name}": {"slots": 2} for name in ("one", "two", "three")}
    return f"c.SshEngine.machines = {machines}"


def test_of_nine_jobs_six_run_on_three_machines_with_two_slots_and_three_wait_in_turn(
    shared_controller: SshControllerWorld,
) -> None:
    world, gate = shared_controller, shared_controller.gate()
    jobs = [world.submit(gate=gate, engine="ssh") for _ in range(9)]

    def waiting() -> list[str]:
        sentences = [job.why() for job in jobs]
        return sorted(found[1] for each in sentences if (found := re.match(r"Queued, position (\d)\.", each)))

    eventually_blocking(lambda: sum(job.runs() for job in jobs) == 6, "six run", within=PATIENCE)
    eventually_blocking(lambda: waiting() == list("123"), "three wait in turn", within=PATIENCE)
    assert [len(world.agents_of(machine)) for machine in world.machines] == [2, 2, 2]
    gate.touch()
    assert [(job.wait().state.value, job.runs()) for job in jobs] == [("Completed", 1)] * 9


@pytest.mark.heavy("ssh")
def test_an_agent_that_is_stopped_is_named_with_its_machine_and_what_continues_it(
    ssh_controller: SshControllerWorld,
) -> None:
    world, one, gate = ssh_controller, ssh_controller.world["one"], ssh_controller.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    (agent,) = world.agents_of(one)
    there = pid_on_machine(agent)
    sentence = f"its agent, process {there} on {one.alias}, is stopped (SIGSTOP). `kill -CONT {there}` on {one.alias}"
    with frozen(agent):
        gate.touch()
        job.until(lambda seen: sentence in remark(seen), "it says so")
    assert (job.wait().state.value, job.runs(), job.log()) == ("Completed", 1, "begun\ndone\n")


def pid_on_machine(pid: int) -> int:
    """Return the number that a process has in the namespace of its machine."""
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("NSpid:")]
    return int(line.split()[-1])


@pytest.mark.heavy("ssh")
def test_a_job_runs_on_through_an_outage_and_says_since_when_it_is_out_of_reach(
    ssh_controller: SshControllerWorld,
) -> None:
    world, one, gate = ssh_controller, ssh_controller.world["one"], ssh_controller.gate()
    job = world.submit(TICKS.format(gate=gate.name))
    job.until_it_says("tick")
    cut_off(world, one)
    is_unreachable(job, one.alias)
    one.restore()
    began = time.monotonic()
    gate.touch()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert time.monotonic() - began < 10.0
    is_reachable_again(job)
    numbers = [int(line.split()[1]) for line in job.log().splitlines() if line.startswith("tick")]
    assert numbers == list(range(len(numbers))), "no line is missing or there twice"


def test_a_machine_that_is_off_is_waited_for_until_the_wait_is_over(shared_controller: SshControllerWorld) -> None:
    world, one = shared_controller, shared_controller.world["one"]
    one.kill()
    began = time.monotonic()
    job = world.submit(spot=True, max_run=8, max_wait=8)
    seen = waits_for(job, "smx-one does not answer")
    assert seen.ended_at is None
    ended = job.wait()
    assert ended.state.value == "MaxWaitTimeExceeded"
    assert 8.0 <= time.monotonic() - began < 8.0 + PATIENCE
    one.start()
    eventually_blocking(lambda: not world.pools(), "nothing waits for a release", within=PATIENCE)
    assert (job.runs(), world.run().job().state.value) == (0, "Completed")


@pytest.mark.heavy("ssh")
def test_a_machine_that_stays_away_gives_a_verdict_when_the_time_is_over_and_is_swept_when_it_is_back(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.unreachable_limit = 1.0")
    world, one = ssh_controller, ssh_controller.world["one"]
    job = world.submit(gate=world.gate(), max_run=8, retries=2)
    job.until_it_says("begun")
    turn_off(world, one)
    is_unreachable(job, one.alias)
    ended = job.wait()
    assert (ended.state.value, ended.attempt, job.runs()) == ("Failed", 1, 1)
    assert "could not be reached until the maximum run time was over" in ended.failure_reason
    assert [pool.state for pool in world.pools()] == ["Releasing"]
    one.start()
    eventually_blocking(lambda: not world.pools(), "the host is released", within=PATIENCE)
    eventually_blocking(lambda: not living(one), "nothing runs there", within=PATIENCE)
    assert job.runs() == 1
    assert "reachable" not in remark(world.run().job())
