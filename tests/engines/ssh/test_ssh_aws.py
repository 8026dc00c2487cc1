"""A job on a machine that SSH reaches uses botocore against the front of this machine, over its agent's stream."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from worlds import machine_botocore
from worlds.ssh import disk

from jupyter_smx.aws_endpoint import process
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ssh_controller import SshControllerWorld

PATIENCE = 60.0
GATE = "gate-of-front"


@pytest.fixture
def front(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[machine_botocore.Front]:
    machine_botocore.install(ssh_controller.world["one"].home)
    configure("c.SmxAws.engine = 'ssh:smx-one'")
    own = machine_botocore.Front(monkeypatch)
    own.start()
    yield own
    process.stop_front()


def test_a_job_exchanges_objects_with_the_front_also_after_that_was_started_again(
    front: machine_botocore.Front, ssh_controller: SshControllerWorld
) -> None:
    one = ssh_controller.world["one"]
    front.create("far-1", machine_botocore.script(disk.HOME, f"{disk.HOME}/{GATE}"))
    eventually_blocking(lambda: "first 1500000 InProgress" in front.log("far-1"), within=PATIENCE)
    running = process.find_front()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    eventually_blocking(lambda: process.find_front() is None)
    front.start()
    (one.home / GATE).touch()
    ended = front.wait("far-1")
    assert (ended["TrainingJobStatus"], ended.get("FailureReason")) == ("Completed", None), front.log("far-1")[-4:]
    assert [line for line in front.log("far-1") if line.startswith(("first", "again", "config"))] == [
        "config True",
        "first 1500000 InProgress",
        "again 1500000 InProgress",
    ]
    assert front.body("algo-1again") == b"again" * 300_000
    (job,) = ssh_controller.client.jobs(200)
    ends = ssh_controller.client.job(job.id).hosts
    assert [end.left_behind for end in ends] == [()], "not the configuration of the SDK"
