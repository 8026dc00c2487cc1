"""Results of a machine reached by SSH: of a host whose time was over, and of one whose agent was killed."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from typing import TYPE_CHECKING

from ssh_controller import PATIENCE, living
from world import kill

from jupyter_smx.agent import wire
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from ssh_controller import SshControllerWorld
    from world import Ran

MODEL = "open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('x' * 1000)"

BUSY = """\
while time.process_time() < 0.4:
    sum(range(10_000))
while not os.path.exists(_home + "/{gate}"):
    time.sleep(0.01)
"""


def end_unseen(world: SshControllerWorld) -> tuple[Ran, Path]:
    """Let a job end while no controller lives; gives it with the folder of its host on the machine."""
    gate = world.gate()
    job = world.submit(MODEL, gate=gate)
    job.until_it_says("begun")
    host = world.host_folder(job.job())
    kill(world.controller())
    gate.touch()
    record = host / "spool" / job.id / "end.json"
    eventually_blocking(record.exists, "the host has written its record", within=PATIENCE)
    return job, host


def end_keep_alive(host: Path) -> None:
    """Let the time of a host be over, as it is a minute after a job without keep-alive."""
    folder = os.open(host, os.O_PATH)
    try:
        with closing(socket.socket(socket.AF_UNIX)) as agent:
            agent.connect(f"/proc/self/fd/{folder}/agent.sock")
            for number, question in enumerate(({"op": "hello", "protocol": 1, "epoch": 1}, {"op": "deadline"})):
                agent.sendall(wire.encode({"id": number, "seconds": 0, **question}))
                while wire.receive(agent).header.get("re") != number:
                    pass
    finally:
        os.close(folder)


def assert_complete(job: Ran) -> None:
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert job.log() == "begun\ndone\n"
    assert {artifact.name: artifact.size > 0 for artifact in job.job().artifacts}["model.tar.gz"]


def test_a_job_that_ended_while_a_laptop_was_closed_is_completed_with_its_log_and_artefacts(
    ssh_controller: SshControllerWorld,
) -> None:
    job, host = end_unseen(ssh_controller)
    end_keep_alive(host)
    one = ssh_controller.world["one"]
    eventually_blocking(lambda: len(living(one)) == 1, "the agent is alone", within=PATIENCE)
    assert ssh_controller.agents_of(one), "it keeps the results"
    assert_complete(job)
    eventually_blocking(lambda: not living(one), "the host is released", within=PATIENCE)


def test_a_job_whose_agent_was_killed_after_its_end_is_completed_from_the_machines_disk(
    ssh_controller: SshControllerWorld,
) -> None:
    job, _ = end_unseen(ssh_controller)
    for pid in ssh_controller.agents():
        kill(pid)
    assert_complete(job)


def test_the_usage_of_a_machine_is_shown_while_a_job_runs_and_is_in_its_record(
    ssh_controller: SshControllerWorld,
) -> None:
    client, gate = ssh_controller.client, ssh_controller.gate()
    job = ssh_controller.submit(BUSY.format(gate=gate.name))
    job.until_it_says("begun")

    def memory() -> int | None:
        [usage] = [each.usage for each in client.jobs(10) if each.id == job.id]
        return usage.memory_bytes if usage else None

    eventually_blocking(memory, "the list of jobs has the memory of the job", within=PATIENCE)
    eventually_blocking(lambda: len(client.usage(job.id).hosts[0].at) >= 2, "two samples are here", within=PATIENCE)
    gate.touch()
    assert job.wait().state.value == "Completed"
    usage = client.usage(job.id)
    [host] = usage.hosts
    assert (host.host, len(host.at) >= 2) == ("algo-1", True)
    assert max(percent for percent in host.cpu_percent if percent is not None) > 5
    assert usage.peak is not None
    assert usage.peak.memory_bytes
    assert job.job().peak == usage.peak
