"""A job can end its agent and say anything in its place: whatever that is, records can be read and others go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import a_cluster, a_job

from jupyter_smx.controller.state.job_runtime import JobRuntime, host_end
from jupyter_smx.model.records.cluster import Host
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.provenance import Provenance
from jupyter_smx.model.results.usage import Usage
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.policy.accounting.usage import sum_usage, usage_of
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.agent_messages import hosts_of
from jupyter_smx.policy.hosts.provenance import provenance_of
from jupyter_smx.policy.lifecycle.outcome import job_outcome

if TYPE_CHECKING:
    from jupyter_smx.testing.fakes.fake_host import FakeHost
    from jupyter_smx.testing.simulation.simulation import Simulation

FIELDS = (
    *("cause", "exit_code", "signal", "failure", "reason", "message", "exception", "at", "log", "samples", "artifacts"),
    *("received", "errors", "left_behind", "modules", "packages", "notes", "usage", "own_modules", "inputs"),
    "hash_seed",
)
NAMES = st.sampled_from(["type", "line", "exited", "ended", "name", "path", "size", "memory_bytes", "cpu_percent", "x"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**53 + 1, 2**64, 10**400]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "exit", "host", "refused", "nan", "a\udc80b", "\ud800"]),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
RECORDS = st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4)
GARBLED: list[dict[str, Any]] = [
    {"failure": 5},
    {"exception": [1]},
    {"exception": {"type": "T", "line": "x"}},
    {"at": []},
    {"at": {"ended": "x"}},
    {"left_behind": [1]},
    {"artifacts": [5]},
    {"artifacts": [{"name": "x", "path": "x", "size": -1}]},
    {"exit_code": "x"},
    {"cause": ["x"]},
    {"received": {"x": "y"}},
    {"packages": [1]},
    {"notes": 5},
]
START = 0.6


def again(what: Any, kind: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(what), type=kind)


@given(RECORDS)
def test_whatever_a_record_says_the_end_of_a_job_can_be_written_and_read(said: dict[str, Any]) -> None:
    record = agent_messages.parse_record(said)
    end = host_end("algo-1", record)
    judged = job_outcome(a_job().goal, (end,))
    job = msgspec.structs.replace(
        a_job(state=SecondaryStatus.FAILED),
        hosts=(end,),
        failure_reason=judged.reason,
        failure_message=judged.message,
        timings={name: moment for name, moment in record.get("at", {}).items() if moment is not None},
        received=dict(record.get("received", {})),
        provenance=provenance_of(a_job(), (), {"algo-1": record}),
        peak=sum_usage([usage_of(record.get("usage", {}))]),
    )
    assert again(job, Job).hosts == (end,)
    again(provenance_of(a_job(), (), {"algo-1": record}), Provenance)
    again(sum_usage([usage_of(record.get("usage", {}))] * 2), Usage | None)
    JobRuntime(hosts=("algo-1",), records={"algo-1": record}).observation(connected=True)


@pytest.mark.parametrize("said", GARBLED, ids=json.dumps)
def test_a_record_that_is_none_is_that_of_a_host_that_failed(said: dict[str, Any]) -> None:
    end = host_end("algo-1", agent_messages.parse_record(said))
    assert end.is_host_failure()
    assert "host's end record cannot be read" in end.failure


def test_a_record_that_is_one_stays_as_it_is() -> None:
    said = {
        "cause": "exit",
        "exit_code": 1,
        "signal": None,
        "failure": "f",
        "reason": "r",
        "message": None,
        "exception": {"type": "T", "message": "m", "traceback": "t", "line": None},
        "at": {"ended": 1.5, "exited": None},
        "log": 3,
        "artifacts": [{"name": "a\udc80", "path": "artifacts/a\udc80", "size": 3}],
        "received": {"v": 1},
        "usage": {"cpu_percent": 99.5, "memory_bytes": 7},
        "modules": ["numpy"],
        "packages": {"numpy": "2"},
    }
    assert agent_messages.parse_record(said) == said


@given(st.dictionaries(st.sampled_from(["isolation", "preload", "python", "limits", "machine", "deadline"]), ANYTHING))
def test_whatever_a_greeting_says_hosts_can_be_written_and_read_or_it_is_none(said: dict[str, Any]) -> None:
    try:
        heard = agent_messages.parse_hello(said)
    except agent_messages.MalformedMessageError:
        return
    hosts = hosts_of(a_cluster(), {"algo-1": heard})
    assert again(hosts, tuple[Host, ...]) == hosts


def left(host: FakeHost, job: str, said: object) -> None:
    """Write a record as a job may do that ends its agent then."""
    (host.spool / job).mkdir(parents=True, exist_ok=True)
    (host.spool / job / "end.json").write_text(json.dumps(said))


@pytest.mark.parametrize("said", GARBLED, ids=json.dumps)
@pytest.mark.parametrize("how", ["left", "told"])
def test_a_record_that_is_none_ends_its_own_job_and_keeps_no_other_from_its_end(
    sim: Simulation, how: str, said: dict[str, Any]
) -> None:
    job, other = sim.submit(), sim.submit()
    sim.pass_time(START)
    host = sim.hosts(job)[0]
    if how == "left":
        left(host, job, said)
        sim.kill_host(host)
    else:
        lease = sim.job(job).lease
        sim.call(lambda: host.send_event({"event": "ended", "job": job, "lease": lease, "record": said}))
    sim.pass_time(30)
    assert sim.job(job).status() is Status.FAILED
    assert "cannot be read" in sim.job(job).failure_reason
    sim.end_job(other)
    sim.pass_time(5)
    assert sim.job(other).status() is Status.COMPLETED
    sim.restart()
    sim.pass_time(5)
    assert {row.status for row in sim.controller.store.summaries()} == {Status.COMPLETED, Status.FAILED}


@pytest.mark.parametrize(
    "said",
    [
        {"event": "first_line", "at": {"first_line": "x"}},
        {"event": "first_line", "at": 5},
        {"event": "grew", "total": "x"},
        {"event": "sampled", "total": {}, "now": 5},
        {"event": "preload", "loaded": 5},
        {"event": "preload", "loaded": [5], "failed": {}},
        {"event": "preload", "loaded": [], "failed": {"x": 5}},
        {"event": "spoilt", "reason": [1]},
        {"event": ["x"]},
    ],
    ids=json.dumps,
)
def test_an_event_that_is_none_changes_nothing(sim: Simulation, said: dict[str, Any]) -> None:
    job = sim.submit()
    sim.pass_time(START)
    before = sim.job(job)
    host, lease = sim.hosts(job)[0], before.lease
    sim.call(lambda: host.send_event({**said, "job": job, "lease": lease}))
    sim.pass_time(1)
    assert sim.job(job) == before
    sim.restart()
    sim.end_job(job)
    sim.pass_time(5)
    assert sim.job(job).status() is Status.COMPLETED


@pytest.mark.parametrize(
    "said",
    [{"isolation": {"mode": 5}}, {"preload": {"loaded": [5]}}, {"deadline": "x"}, {"jobs": {"x": 5}}, {"jobs": 5}],
)
def test_a_greeting_that_is_none_is_no_answer_and_the_next_controller_comes_up(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    job, other = sim.submit(), sim.submit()
    sim.pass_time(START)
    host = sim.hosts(job)[0]
    hello = host._hello
    monkeypatch.setattr(host, "_hello", lambda *words: {**hello(*words), **said})
    sim.break_streams(host)
    sim.pass_time(30)
    sim.restart()
    sim.pass_time(30)
    assert "its hello message is invalid" in str(sim.job(job).transitions[-1].status_message)
    sim.end_job(other)
    sim.pass_time(5)
    assert sim.job(other).status() is Status.COMPLETED
    assert sim.bugs == []


def test_hosts_of_several_instances_are_looked_at_one_by_one(sim: Simulation) -> None:
    job = sim.submit(hosts=2)
    sim.pass_time(START)
    for host, said in zip(sim.hosts(job), ({"failure": 5}, {"cause": "exit", "exit_code": 0}), strict=True):
        left(host, job, said)
    for host in sim.hosts(job):
        sim.kill_host(host)
    sim.pass_time(30)
    ends = sim.job(job).hosts
    assert [end.is_successful() for end in ends] == [False, True]


@pytest.mark.parametrize("keep_alive", [0, 600])
def test_a_record_that_cannot_be_read_is_missed_by_nobody_else(sim: Simulation, keep_alive: int) -> None:
    other, job = sim.submit(), sim.run_to_end(keep_alive=keep_alive)
    for column in ("record", "summary"):
        sim.controller.store._raw.execute(f"UPDATE jobs SET {column} = '5' WHERE id = ?", (job,))  # noqa: S608
    sim.restart()
    sim.pass_time(START)
    sim.end_job(other)
    sim.pass_time(5)
    assert sim.job(other).status() is Status.COMPLETED
    assert [row.id for row in sim.controller.store.summaries()] == [other]
    assert len(sim.pools()) == bool(keep_alive)
    assert sum("unreadable record skipped" in bug for bug in sim.bugs) == len(sim.bugs)
    sim.bugs.clear()
