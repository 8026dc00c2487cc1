"""Results of a remote machine: of a host whose time is over, of one that is gone, and of one that cannot be reached."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

from world import kill

from jupyter_smx.agent import wire
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RemoteWorld
    from world import Ran

MODEL = "open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('x' * 1000)"
PATIENCE = 20.0


def end_unseen(remote: RemoteWorld, **fields: Any) -> tuple[Ran, Path]:
    """Let a job end while no controller lives; gives it with the folder of its host on the machine."""
    gate = remote.gate()
    job = remote.submit(MODEL, gate=gate, keep_alive=0, **fields)
    job.until_it_says("begun")
    kill(remote.controller())
    gate.touch()
    (host,) = (path.parent for path in remote.machine.glob("clusters/*/*/agent.sock"))
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


def files_of(job: Ran) -> dict[str, int]:
    return {artifact.name: artifact.size for artifact in job.job().artifacts}


def test_a_job_that_ended_while_a_laptop_was_closed_is_completed_with_its_log_and_artefacts(
    remote: RemoteWorld,
) -> None:
    job, host = end_unseen(remote)
    cluster = host.parent.name
    end_keep_alive(host)
    eventually_blocking(
        lambda: len(process_scan.cluster_processes(cluster)) <= 1, "the agent is alone", within=PATIENCE
    )
    assert remote.agents(), "it keeps the results"
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert job.log() == "begun\ndone\n"
    assert files_of(job)["model.tar.gz"] > 0
    eventually_blocking(lambda: not remote.agents(), "the host is released", within=PATIENCE)
    assert "log is incomplete" not in (remote.data / "controller.log").read_text()


def test_a_job_whose_agent_was_killed_after_its_end_is_completed_from_the_machines_disk(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.reads_spools = True")
    job, _host = end_unseen(remote)
    for pid in remote.agents():
        os.kill(pid, signal.SIGKILL)
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert job.log() == "begun\ndone\n"
    assert files_of(job)["model.tar.gz"] > 0


def test_a_job_is_stopped_at_once_if_its_machine_is_abandoned_and_ends_there_at_the_first_contact(
    remote: RemoteWorld,
) -> None:
    job = remote.submit(gate=remote.gate())
    job.until_it_says("begun")
    remote.gateway.close()
    remote.client.stop(job.id, abandon=True)
    assert job.wait().state.value == "Stopped"
    assert "cannot be reached" in job.job().transitions[-1].status_message
    assert [pool.state for pool in remote.pools()] == ["Releasing"]
    assert remote.agents()
    remote.gateway.open()
    eventually_blocking(lambda: not remote.agents(), "the code has ended there", within=PATIENCE)
    eventually_blocking(lambda: not remote.pools(), "the pool is released", within=PATIENCE)


def test_a_job_whose_machine_is_off_fails_when_its_time_is_over(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.unreachable_limit = 1.0")
    job = remote.submit(gate=remote.gate(), max_run=4, retries=2)
    job.until_it_says("begun")
    remote.gateway.close()
    ended = job.wait()
    assert (ended.state.value, ended.attempt, job.runs()) == ("Failed", 1, 1)
    assert "could not be reached until the maximum run time was over" in ended.failure_reason


def test_no_log_of_a_remote_job_is_called_incomplete(remote: RemoteWorld) -> None:
    for _ in range(5):
        assert remote.run("print('x' * 100_000, flush=True)").log().endswith("done\n")
    assert "log is incomplete" not in (remote.data / "controller.log").read_text()
