"""A record that is too long for its event is read where it lies; one that is said to be there and is not is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.agent.host import end_record
from jupyter_smx.controller.scheduling.finalize import JobFinalizer
from jupyter_smx.controller.transfer import host_spool
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.status import Status
from jupyter_smx.policy.hosts import agent_messages

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
FILES = {f"outputs/table/{number}": b"x" * number for number in range(9)}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let every record be long; gives the events of ends as they were told."""
    monkeypatch.setattr(end_record, "MAX_EVENT_BYTES", 100)
    heard: list[dict[str, Any]] = []
    event = agent_messages.parse_event

    def noted(said: dict[str, Any]) -> dict[str, Any]:
        if said["event"] == "ended":
            heard.append(said)
        return event(said)

    monkeypatch.setattr(agent_messages, "parse_event", noted)
    return heard


def began(sim: Simulation) -> str:
    job = sim.submit()
    sim.pass_time(START)
    return job


def tell(sim: Simulation, job: str, **said: Any) -> None:
    host, lease = sim.hosts(job)[0], sim.job(job).lease
    sim.call(lambda: host.send_event({"event": "ended", "job": job, "lease": lease, **said}))
    sim.pass_time(5)


def test_all_that_a_job_made_comes_home(sim: Simulation, told: list[dict[str, Any]]) -> None:
    job = began(sim)
    sim.end_job(job, artifacts=FILES)
    sim.pass_time(5)
    assert [("record" in one, one["kept"] > 100) for one in told] == [(False, True)]
    done = sim.job(job)
    assert done.status() is Status.COMPLETED
    assert {one.name: Path(one.path).read_bytes() for one in done.artifacts} == FILES
    assert sim.bugs == []


def test_it_is_read_on_when_the_host_greets_again_and_a_later_stop_changes_nothing(
    sim: Simulation, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, tries = JobFinalizer.fetch_record, []

    async def silent_at_first(finisher: JobFinalizer, job: Job, host: str) -> dict[str, Any]:
        tries.append(host)
        if len(tries) < 3:
            raise UnavailableError("Nobody answers.", transient=True)
        return await fetch(finisher, job, host)

    monkeypatch.setattr(JobFinalizer, "fetch_record", silent_at_first)
    job = began(sim)
    sim.end_job(job, artifacts=FILES)
    trail = sim.controller.reconciler.runtimes.find(job)
    assert trail is not None
    assert trail.has_ended()
    sim.break_streams(sim.hosts(job)[0])
    sim.stop(job)
    sim.pass_time(10)
    assert len(told) == 1
    assert len(tries) == 3
    assert sim.job(job).status() is Status.COMPLETED
    assert len(sim.job(job).artifacts) == len(FILES)


def test_a_record_of_hosts_that_the_job_has_lost_is_nobodys(
    sim: Simulation, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_another_lease(_finisher: JobFinalizer, job: Job, _host: str) -> dict[str, Any]:
        now = sim.controller.live_state.job(job.id)
        sim.controller.live_state.jobs[job.id] = replace(now, lease=now.lease + 1)
        return {"cause": "exit", "exit_code": 0}

    monkeypatch.setattr(JobFinalizer, "fetch_record", of_another_lease)
    job = began(sim)
    sim.end_job(job)
    sim.pass_time(1)
    assert told
    assert sim.job(job).status() is Status.IN_PROGRESS


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "Expected `object`, got `null`"),
        ({"kept": 0}, "Expected `object`, got `null`"),
        ({"kept": 7, "record": {"cause": 5}}, "Expected `str`, got `int`"),
        ({"kept": 7}, "it does not exist"),
    ],
)
def test_what_is_neither_told_nor_there_ends_its_job_with_the_reason(
    sim: Simulation, said: dict[str, Any], why: str
) -> None:
    job = began(sim)
    tell(sim, job, **said)
    assert sim.job(job).status() is Status.FAILED
    reason = sim.job(job).failure_reason or ""
    assert reason.startswith("InternalServerError: The host's end record cannot be read: ")
    assert why in reason


@pytest.mark.parametrize("kept", ["many", -1, [7], 2**60])
def test_a_length_that_is_none_makes_an_event_none(kept: object) -> None:
    with pytest.raises(agent_messages.MalformedMessageError):
        agent_messages.parse_event({"event": "ended", "job": "x", "lease": 1, "kept": kept})


def test_a_record_beyond_all_bounds_is_not_read_and_both_numbers_are_said(
    sim: Simulation, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_spool, "LONGEST_RECORD", 200)
    job = began(sim)
    sim.end_job(job, artifacts=FILES)
    sim.pass_time(5)
    assert f"it has {told[0]['kept']} bytes; the limit is 200" in (sim.job(job).failure_reason or "")
