"""The remote machine has a queue, loses answers, and has room for a few hosts: jobs wait, say why, and none fails."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from world import kill

from jupyter_smx.kernel.text.formats import format_start_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RemoteWorld
    from world import Ran

    from jupyter_smx.model.records.job import Job

QUEUED = "Waiting at the engine toy: Resources, position 3, expected to start at "


def message(job: Job) -> str:
    return job.transitions[-1].status_message


def until_it_waits(job: Ran, words: str) -> Job:
    return job.until(lambda seen: message(seen).startswith(words), words)


def position(remote: RemoteWorld, job: Ran) -> int | None:
    return next(row.queue_position for row in remote.client.jobs(50) if row.id == job.id)


def test_a_job_that_waits_in_the_queue_of_the_machine_says_so_and_outlives_limit_and_controller(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.launch_limit = 5.0")
    remote.gateway.queue("Resources", 3, time.time() + 600)
    job = remote.submit()
    until_it_waits(job, QUEUED)
    assert QUEUED in format_start_reason(job.job())
    kill(remote.controller())
    time_of_restart = time.monotonic()
    assert message(job.job()).startswith(QUEUED)
    job.until(lambda _: time.monotonic() - time_of_restart > 6.0, "more than a launch may take is over")
    assert message(job.job()).startswith(QUEUED)
    remote.gateway.queue("Priority", 1)
    until_it_waits(job, "Waiting at the engine toy: Priority, position 1.")
    remote.gateway.grant()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert len(set(remote.gateway.launches)) == 1, "it kept its place"


def test_pools_and_doctor_say_what_waits_in_the_queue_and_when_an_allocation_ends(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    end = time.time() + 1_500
    configure(f"c.ToyEngine.allocation_ends_at = {end!r}")
    remote.gateway.queue("Resources", 3, time.time() + 600)
    job = remote.submit(keep_alive=600)
    until_it_waits(job, QUEUED)
    (waits,) = remote.client.doctor()["engines"]["toy"]["pools"].values()
    assert waits.startswith(QUEUED)
    remote.gateway.grant()
    job.wait()
    (pool,) = remote.client.pools()
    assert pool.allocation_ends_at == end
    (report,) = remote.client.doctor()["engines"]["toy"]["pools"].values()
    assert report.startswith("Its allocation ends in 2"), report
    kill(remote.controller())
    assert [row.allocation_ends_at for row in remote.client.pools()] == [end]


def test_a_stop_gives_back_what_waits_in_the_queue_of_the_machine(remote: RemoteWorld) -> None:
    remote.gateway.queue("Resources")
    job = remote.submit()
    until_it_waits(job, "Waiting at the engine toy: Resources.")
    remote.client.stop(job.id)
    assert job.wait().state.value == "Stopped"
    assert remote.pools() == ()
    remote.gateway.grant()
    assert remote.agents() == []


def test_a_launch_whose_answer_was_lost_goes_on(remote: RemoteWorld) -> None:
    remote.controller()
    remote.gateway.lose_next_answer()
    job = remote.submit()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)
    assert remote.clusters_ever() == 1


def test_a_job_for_a_machine_that_cannot_be_reached_waits_until_it_can(remote: RemoteWorld) -> None:
    remote.controller()
    remote.gateway.close()
    job = remote.submit()
    until_it_waits(job, "Waiting at the engine toy: The machine cannot be reached.")
    here = remote.run(engine="local", keep_alive=0)
    assert here.job().state.value == "Completed"
    remote.gateway.open()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


def test_jobs_beyond_the_slots_of_the_machine_wait_in_its_queue_and_a_pool_makes_room(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.machine_slots = 2")
    pool = remote.warm().job().cluster
    gate = remote.gate()
    jobs = [remote.submit(gate=gate, keep_alive=0, role="other") for _ in range(4)]
    for job in jobs[:2]:
        job.until_it_began()
    assert [position(remote, job) for job in jobs] == [None, None, 1, 2]
    assert pool not in [each.id for each in remote.pools() if each.state == "Available"]
    assert "2 of the 2 of the engine toy are in use" in jobs[2].why()
    here = remote.run(engine="local", keep_alive=0)
    assert here.job().state.value == "Completed", "the queue of one engine is not that of another"
    gate.touch()
    assert {job.wait().state.value for job in jobs} == {"Completed"}


def test_a_host_that_dies_is_noticed_at_once_however_seldom_the_machine_is_asked(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.observe_interval = 600.0")
    job = remote.submit(gate=remote.gate())
    job.until_it_began()
    for agent in remote.agents():
        os.kill(agent, signal.SIGKILL)
    assert job.wait().failure_reason.startswith("InternalServerError: Host algo-1 was lost")
