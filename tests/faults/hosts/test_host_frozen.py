"""Hosts and jobs that stand still past every time limit and then go on: nothing is confused, nothing runs twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from world import frozen

from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from world import World

pytestmark = pytest.mark.heavy("faults")

COMPLETED, FAILED, STOPPED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED, SecondaryStatus.STOPPED
LONG = 60.0
"""Seconds; more than all pings take that have to be missed."""


def stream_broke(world: World, cluster: str) -> bool:
    """Say whether the controller has given up the stream to a silent agent."""
    return f"cluster={cluster} agent stream closed" in (world.data / "controller.log").read_text()


def test_bug_03_a_host_that_stood_still_past_its_lease_writes_nothing_any_more(
    world: World, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.unreachable_limit = 1.0")
    job = world.submit(gate=world.gate())
    job.until_it_began()
    cluster, agent = world.cluster(), world.agent()
    spool = world.data / "clusters" / cluster / "algo-1" / "spool" / job.id
    with frozen(agent):
        verdict = job.until(lambda record: record.ended_at, "the controller gave it up")
        assert verdict.state is FAILED
        assert verdict.failure_reason.startswith("InternalServerError: ")
        eventually_blocking(lambda: agent not in world.agents(), "it is released while it stands still", within=LONG)
    world.gates[0].touch()
    assert not process_scan.cluster_processes(cluster), "neither the agent nor its job goes on"
    assert not (spool / "end.json").exists()
    again = world.run()
    assert (job.job().state, job.job().transitions, job.runs()) == (FAILED, verdict.transitions, 1)
    assert again.runs() == 1
    assert world.clusters_ever() == 2


def test_a_host_that_stood_still_until_its_stream_broke_goes_on_with_its_job(world: World) -> None:
    gate = world.gate()
    job = world.submit(gate=gate)
    job.until_it_began()
    cluster = world.cluster()
    began = time.monotonic()
    with frozen(world.agent()):
        gate.touch()
        eventually_blocking(lambda: stream_broke(world, cluster), "the stream is given up", within=LONG)
    assert time.monotonic() - began > 10, "seconds; less is no silence"
    ended = job.wait()
    assert (ended.state, job.runs(), job.log()) == (COMPLETED, 1, "begun\ndone\n")
    assert (world.cluster(), world.clusters_ever()) == (cluster, 1)
    assert world.run().why().startswith("Warm: ")


def test_a_job_that_stands_still_is_waited_for(shared: World) -> None:
    gate = shared.gate()
    job = shared.submit(gate=gate)
    job.until_it_says("begun")
    with frozen(job.process()):
        gate.touch()
        assert shared.run(keep_alive=0).job().cluster != job.job().cluster, "others do not wait"
        assert job.job().state is SecondaryStatus.TRAINING
    assert (job.wait().state, job.runs(), job.log()) == (COMPLETED, 1, "begun\ndone\n")


def test_a_job_that_stands_still_can_be_stopped(shared: World) -> None:
    job = shared.submit(gate=shared.gate())
    job.until_it_says("begun")
    with frozen(job.process()):
        shared.client.stop(job.id)
        assert job.wait().state is STOPPED
    assert job.runs() == 1


def test_a_job_given_to_a_pool_that_stands_still_over_its_deadline_runs_once_wherever(world: World) -> None:
    first = world.run(keep_alive=2)
    pool = world.cluster()
    with frozen(world.agent()):
        job = world.submit()
        job.until(lambda record: record.cluster == pool, "the pool has it")
        expires = first.job().ended_at
        assert expires is not None
        eventually_blocking(lambda: time.time() > expires + 3, "the deadline is over")
        assert job.runs() == 0
    ended = job.wait()
    assert (ended.state, job.runs()) == (COMPLETED, 1), ended.failure_reason
