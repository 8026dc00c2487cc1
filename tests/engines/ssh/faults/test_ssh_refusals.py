"""What stays so until a person changes something ends a job at once with the cure, also on a machine used before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fault_helpers import break_connection, is_unreachable, remark, waits_for
from ssh_controller import PATIENCE

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from ssh_controller import SshControllerWorld

pytestmark = pytest.mark.processes
REFUSAL_LIMIT = 10.0
SENTENCES = {
    "another host key": "The host key of smx-one is not the one that is recorded on this machine.",
    "key refused": "smx-one denied the login: it accepts none of the keys of this user.",
    "no Python": "smx-one: there is no Python 'python3'.",
}
CURES = {
    "another host key": "delete the old one (ssh-keygen",
    "key refused": "Name the right key (IdentityFile",
    "no Python": "Install it there, or set its path",
}


def break_machine(world: SshControllerWorld, fault: str) -> None:
    one = world.world["one"]
    {"another host key": one.change_host_key, "key refused": one.refuse_key, "no Python": one.hide_python}[fault]()


@pytest.mark.parametrize("is_known", [False, True], ids=["first contact", "used before"])
@pytest.mark.parametrize("fault", SENTENCES)
def test_a_lasting_fault_fails_the_job_at_once_with_its_cure(
    ssh_controller: SshControllerWorld, fault: str, is_known: bool
) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    if is_known:
        world.run()
        eventually_blocking(lambda: not world.pools(), "its host is released", within=PATIENCE)
    break_machine(world, fault)
    break_connection(world, one)
    began = time.monotonic()
    ended = world.submit().wait()
    assert ended.state.value == "Failed"
    assert time.monotonic() - began < REFUSAL_LIMIT
    assert ended.failure_reason.startswith(f"ClientError: {SENTENCES[fault]}")
    assert CURES[fault] in ended.failure_reason
    assert world.pools() == (), "nothing was launched, so nothing waits for its release"
    world.world.reset()
    world.run()


def test_a_job_that_runs_on_a_machine_with_another_host_key_goes_on_and_says_so(
    ssh_controller: SshControllerWorld,
) -> None:
    world, one, gate = ssh_controller, ssh_controller.world["one"], ssh_controller.gate()
    job = world.submit(gate=gate)
    job.until_it_says("begun")
    one.change_host_key()
    break_connection(world, one)
    seen = is_unreachable(job, one.alias)
    assert SENTENCES["another host key"] in remark(seen)
    world.world.reset()
    gate.touch()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


def test_an_environment_of_the_configuration_that_fails_says_its_line_and_what_it_printed(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None]
) -> None:
    module = 'module() { echo "Unable to locate a modulefile for \\"$2\\"" >&2; return 1; }'
    environments = {"site": f"{module}\nmodule load none", "conda": "conda activate none\n# for jobs\n"}
    configure(f"c.SshEngine.environments = {environments!r}")
    for name, line, printed, cure in (
        ("site", "module load none", 'Unable to locate a modulefile for "none"', "bash -lc"),
        ("conda", "conda activate none", "conda: command not found", "etc/profile.d/conda.sh"),
    ):
        ended = ssh_controller.submit(python=name, python_named=True).wait()
        assert ended.state.value == "Failed"
        said = f"the last line of the environment {name!r} fails on smx-one: {line}."
        assert said in ended.failure_reason
        assert printed in ended.failure_reason
        assert cure in ended.failure_reason


@pytest.mark.usefixtures("empty_homes")
def test_a_full_disk_there_is_waited_for(ssh_controller: SshControllerWorld) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    one.fill_disk()
    job = world.submit()
    waits_for(job, "smx-one: the agent cannot be written to")
    one.free_disk()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
