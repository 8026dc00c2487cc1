"""A job waits while the user must type something, and its message has the command that opens the session."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from fault_helpers import waits_for

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld
    from world import Ran

pytestmark = pytest.mark.processes


def open_session(world: SshControllerWorld, job: Ran, *, accept: bool) -> None:
    """Run the command of a job's message as the user does, and confirm the key or type the code."""
    said = job.job().transitions[-1].status_message
    (command,) = re.findall(r"\S*ssh .*-M .*[^.]", said)
    command = command.replace(" -M ", " -o StrictHostKeyChecking=accept-new -M ") if accept else command
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["/bin/sh", "-c", command], env=world.world.answer_questions(), check=True, **quiet)


@pytest.mark.parametrize("fault", ["host key", "code"])
def test_what_a_person_must_type_is_waited_for_with_the_command(ssh_controller: SshControllerWorld, fault: str) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    (one.forget_host_key if fault == "host key" else one.require_code)()
    words = {"host key": "is not known on this machine", "code": "who must type a code or a password"}[fault]
    job = world.submit()
    seen = waits_for(job, words)
    assert "Open the session in a terminal" in seen.transitions[-1].status_message
    open_session(world, job, accept=fault == "host key")
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
