"""What stays so until a person changes something ends a job at once with the cure, also on a machine used before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fault_helpers import break_connection, is_unreachable, remark, waits_for
from ssh_controller import PATIENCE

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.processes
REFUSAL_LIMIT = 10.0
SENTENCES = {
    "another host key": "The host key of {} is not the one that is recorded on this machine.",
    "key refused": "{} denied the login: it accepts none of the keys of this user.",
    "no Python": "{}: there is no Python 'python3'.",
}
CURES = {
    "another host key": "delete the old one (ssh-keygen",
    "key refused": "Name the right key (IdentityFile",
    "no Python": "Install it there, or set its path",
}
MACHINES = {"another host key": "one", "key refused": "two", "no Python": "three"}
"""Each fault has a machine of its own, which the controller has not used before."""
MODULE = 'module() { echo "Unable to locate a modulefile for \\"$2\\"" >&2; return 1; }'
ENVIRONMENTS = {"site": f"{MODULE}\nmodule load none", "conda": "conda activate none\n# for jobs\n"}


@pytest.fixture(scope="module")
def configuration_of_module() -> str:
    return f"c.SshEngine.environments = {ENVIRONMENTS!r}"


def break_machine(one: Machine, fault: str) -> None:
    {"another host key": one.change_host_key, "key refused": one.refuse_key, "no Python": one.hide_python}[fault]()


def check_refusal(world: SshControllerWorld, machine: Machine, fault: str) -> None:
    """Break a machine whose fault ends a job at once with its cure, and repair it again."""
    break_machine(machine, fault)
    break_connection(world, machine)
    began = time.monotonic()
    ended = world.submit(engine=f"ssh:{machine.alias}").wait()
    assert ended.state.value == "Failed"
    assert time.monotonic() - began < REFUSAL_LIMIT
    assert ended.failure_reason.startswith(f"ClientError: {SENTENCES[fault].format(machine.alias)}")
    assert CURES[fault] in ended.failure_reason
    assert world.pools() == (), "nothing was launched, so nothing waits for its release"
    world.world.reset()


@pytest.mark.parametrize("fault", SENTENCES)
def test_a_lasting_fault_fails_the_job_at_once_with_its_cure_at_first_contact_and_later(
    shared_controller: SshControllerWorld, fault: str, request: pytest.FixtureRequest
) -> None:
    world, machine = shared_controller, shared_controller.world[MACHINES[fault]]
    if getattr(request.node, "execution_count", 1) == 1:  # a rerun has the controller of the first run
        facts = world.data / "engines" / "ssh" / "machines" / f"{machine.alias}.json"
        assert not facts.exists(), "this is not the first contact with the machine"
    check_refusal(world, machine, fault)
    world.run(engine=f"ssh:{machine.alias}")
    eventually_blocking(lambda: not world.pools(), "its host is released", within=PATIENCE)
    check_refusal(world, machine, fault)
    world.run(engine=f"ssh:{machine.alias}")


def test_a_job_that_runs_on_a_machine_with_another_host_key_goes_on_and_says_so(
    shared_controller: SshControllerWorld,
) -> None:
    world, one, gate = shared_controller, shared_controller.world["one"], shared_controller.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    one.change_host_key()
    break_connection(world, one)
    seen = is_unreachable(job, one.alias)
    assert SENTENCES["another host key"].format(one.alias) in remark(seen)
    world.world.reset()
    gate.touch()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


def test_an_environment_of_the_configuration_that_fails_says_its_line_and_what_it_printed(
    shared_controller: SshControllerWorld,
) -> None:
    for name, line, printed, cure in (
        ("site", "module load none", 'Unable to locate a modulefile for "none"', "bash -lc"),
        ("conda", "conda activate none", "conda: command not found", "etc/profile.d/conda.sh"),
    ):
        ended = shared_controller.submit(python=name, python_named=True).wait()
        assert ended.state.value == "Failed"
        said = f"the last line of the environment {name!r} fails on smx-one: {line}."
        assert said in ended.failure_reason
        assert printed in ended.failure_reason
        assert cure in ended.failure_reason


@pytest.mark.usefixtures("empty_home")
def test_a_full_disk_there_is_waited_for(shared_controller: SshControllerWorld) -> None:
    world, one = shared_controller, shared_controller.world["one"]
    one.fill_disk()
    job = world.submit()
    waits_for(job, "smx-one: the agent cannot be written to")
    one.free_disk()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
