"""Whose turn it is when there is room: arrays that come after others, long lines, and the lines of several engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from records import a_job, a_spec, an_id

from jupyter_smx.controller.state.job_queue import JobQueue
from jupyter_smx.model.records.job import Attempt
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.array import task_id
from jupyter_smx.model.status import is_final
from jupyter_smx.policy.scheduling.placement import add_queue_time
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 40


@pytest.fixture
def wide() -> Iterator[Simulation]:
    """Give a machine with room for eight jobs."""
    with Simulation(limits=replace(LIMITS, max_hosts=8, cpus=8, memory_gib=32.0)) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def running(sim: Simulation, array: str, size: int) -> list[int]:
    jobs = [sim.job(task_id(array, index)) for index in range(size)]
    return [index for index, job in enumerate(jobs) if job.cluster and not is_final(job.state)]


def test_an_array_that_comes_after_a_job_keeps_its_limit(wide: Simulation) -> None:
    first = wide.submit()
    wide.pass_time(1.0)
    array = wide.submit_array(5, max_concurrent=2, after=(first,))
    wide.pass_time(1.0)
    assert running(wide, array, 5) == []
    wide.end_job(first)
    wide.pass_time(5.0)
    assert running(wide, array, 5) == [0, 1]
    wide.end_job(task_id(array, 0))
    wide.pass_time(5.0)
    assert running(wide, array, 5) == [1, 2]


def test_the_end_of_a_task_is_one_write_and_not_one_for_each_that_waits(
    wide: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = wide.submit()
    wide.pass_time(1.0)
    array = wide.submit_array(SIZE, after=(first,), keep_alive=600)
    wide.end_job(first)
    wide.pass_time(1.5)
    writes: list[object] = []
    write = wide.controller.store.write
    monkeypatch.setattr(
        wide.controller.store, "write", lambda *args, **kwargs: (writes.append(args), write(*args, **kwargs))[1]
    )
    wide.end_job(task_id(array, 0))
    assert len(running(wide, array, SIZE)) == 8
    assert len(writes) < 10


def test_who_is_held_no_more_is_not_said_to_wait_for_others_and_waited_since_then(wide: Simulation) -> None:
    first = wide.submit()
    wide.pass_time(100.0)
    last = [wide.submit(hosts=8, after=(first,)) for _ in range(2)]
    wide.pass_time(100.0)
    assert "Waiting for" in wide.start_reason(last[1]).sentence
    wide.end_job(first)
    assert "Waiting for" not in wide.start_reason(last[1]).sentence
    wide.pass_time(7.0)
    wide.end_job(last[0])
    [note] = [note for note in wide.start_reason(last[1]).notes if "queue" in note]
    assert note.startswith("It waited 7 s")


def test_an_attempt_waited_since_the_end_of_the_one_before() -> None:
    attempt = Attempt(number=1, cluster="c", reason="lost", ended_at=4_600.0)
    job = a_job(1, created_at=1_000.0, why=Why(start="queued", sentence="Queued."), attempts=(attempt,))
    assert add_queue_time(Why(start="cold", sentence=""), job, 4_602.0).notes == ("It waited 2 s in the queue.",)


def test_the_lines_of_all_engines_are_called_in_one_order() -> None:
    engines = ["local", "local", "docker", "local", "docker"]
    live = {an_id(age): a_job(age, spec=a_spec(engine=engine)) for age, engine in enumerate(engines, 1)}
    line = JobQueue(live, {}.get, lambda _: None)
    called = []
    while engine := line.next_engine(()):
        called.append(engine)
        job = live[line.head(engine)]
        live[job.id] = replace(job, cluster="c")
        line.update([live[job.id]])
    assert called == engines
    assert line.next_engine(()) == ""


def test_an_engine_without_room_holds_up_no_other() -> None:
    live = {an_id(1): a_job(1, spec=a_spec(engine="docker")), an_id(2): a_job(2, spec=a_spec(engine="local"))}
    line = JobQueue(live, {}.get, lambda _: None)
    assert line.next_engine(()) == "docker"
    assert line.next_engine({"docker"}) == "local"
    assert line.next_engine({"docker", "local"}) == ""
