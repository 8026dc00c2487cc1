"""A batch job for each instance group, where a site takes no heterogeneous job: one cluster, whole or not at all."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from fake_slurm import END, NO_HETEROGENEOUS, FakeSlurm
from hypothesis import given
from hypothesis import strategies as st
from slurm_requests import host, record, request, row
from test_slurm_engine import acquire, engine_of

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.slurm import allocations, job_options, lifecycle, parsers, reasons
from jupyter_smx.engines.slurm.lifecycle import AdoptJob, FailLaunch, LaunchHosts, RefuseJob, ReportWait, SubmitJob
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, QueueStatus

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.slurm.engine import SlurmEngine
    from jupyter_smx.engines.slurm.parsers import QueueRow
    from jupyter_smx.engines.slurm.record import AllocationRecord

NOW = 2_000.0
TWO_GROUPS = request(host("algo-1", "first"), host("algo-2", "second"), host("algo-3", "second"))
STATES = (*reasons.PENDING, *reasons.RUNNING, *reasons.COMPLETING, "COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def engine(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmEngine:
    monkeypatch.setattr(allocations, "FIRST_DELAYS", (0.0,) * 10_000)
    return engine_of(slurm, tmp_path, heterogeneous=False)


def of_groups(*jobs: str, **changes: object) -> AllocationRecord:
    """Give the record of a cluster with a job for each of two groups."""
    components = {"algo-1": 0, "algo-2": 1}
    return record(job="", job_per_group=True, group_jobs=jobs, components=components, **changes)


def step(known: AllocationRecord, *rows: QueueRow, now: float = NOW) -> lifecycle.Step:
    jobs: dict[str, list[QueueRow]] = {}
    for each in rows:
        jobs.setdefault(each.job, []).append(each)
    return lifecycle.next_step(known, jobs, now, {"main": 3})


# With the scheduler in memory


async def test_each_group_is_a_job_of_its_own_and_all_are_one_cluster(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    handle = await acquire(engine, TWO_GROUPS)
    assert [job.name.partition(":")[2] for job in slurm.jobs] == ["0", "1"]
    assert [(known.host, known.machine, known.data["job"]) for known in handle.hosts] == [
        ("algo-1", "n1", "11"),
        ("algo-2", "n2", "12"),
        ("algo-3", "n3", "12"),
    ]
    assert not any("component" in known.data for known in handle.hosts)
    assert handle.allocation_ends_at == END
    assert await engine.find("f00d") == handle
    assert await engine.observe_all([handle]) == [Observation.RUNNING]


async def test_a_site_without_heterogeneous_jobs_gets_one_for_each_group(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocations, "FIRST_DELAYS", (0.0,) * 10_000)
    slurm.takes_heterogeneous = False
    await acquire(engine_of(slurm, tmp_path), TWO_GROUPS)
    assert slurm.calls["sbatch"] == 3
    assert [job.nodes for job in slurm.jobs] == [1, 2]


async def test_one_group_is_one_job(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    await acquire(engine, request())
    assert [":" in job.name for job in slurm.jobs] == [False]


async def test_a_job_can_name_it(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    engine.heterogeneous = True
    options = {"heterogeneous": "false"}
    hosts = [host("algo-1", "first", options=options), host("algo-2", "second", options=options)]
    await acquire(engine, request(*hosts, options=options))
    assert len(slurm.jobs) == 2


async def test_a_group_without_nodes_is_waited_for_and_the_granted_one_is_named(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    slurm.full_for = ":1"
    async with aclosing(engine.acquire(TWO_GROUPS)) as steps:  # type: ignore[type-var]
        assert isinstance(await anext(steps), Handle)
        waits = await anext(steps)
        assert isinstance(waits, QueueStatus)
        assert waits.reason.startswith("Resources: the nodes are in use (Slurm job 12), one of 2 batch jobs")
        assert "1 node of Slurm job 11 waits for it" in waits.reason
        slurm.full_for = ""
        rest = [state async for state in steps]
    assert isinstance(rest[-1], Handle)
    assert len(rest[-1].hosts) == 3


async def test_a_granted_group_has_the_usual_idle_time_and_the_names_of_the_jobs_that_it_waits_for(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    await acquire(engine, TWO_GROUPS)
    names = [job.name for job in slurm.jobs]
    for job in slurm.jobs:
        found = re.search(r"^plan='(.*)'$", job.script, re.MULTILINE)
        assert found is not None
        plan = json.loads(found[1])
        assert plan["idle"] == TWO_GROUPS.idle_limit + 90.0
        assert plan["others"] == [name for name in names if name != job.name]
        assert (plan["name"], len(plan["groups"])) == (job.name, 1)


@pytest.mark.parametrize("number", [1, 2])
async def test_with_one_that_is_refused_the_others_are_cancelled(
    engine: SlurmEngine, slurm: FakeSlurm, number: int
) -> None:
    slurm.refused_submission = number
    with pytest.raises(RefusedError, match="Invalid partition"):
        await acquire(engine, TWO_GROUPS)
    assert [job.state for job in slurm.jobs] == ["CANCELLED"] * (number - 1)


async def test_with_one_that_can_never_run_the_others_are_cancelled(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    slurm.full_for, slurm.usual_reason = ":1", "BadConstraints"
    with pytest.raises(RefusedError, match="BadConstraints"):
        await acquire(engine, TWO_GROUPS)
    assert [job.state for job in slurm.jobs] == ["CANCELLED"] * 2


async def test_a_submission_without_an_answer_is_found_by_the_name_of_its_group(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    slurm.before_submission = lambda: setattr(slurm, "loses_next_answer", len(slurm.jobs) == 1)
    with pytest.raises(UnavailableError):
        await acquire(engine, TWO_GROUPS)
    handle = await acquire(engine, TWO_GROUPS)
    assert {known.data["job"] for known in handle.hosts} == {"11", "12"}
    assert len(slurm.jobs) == 2


async def test_a_release_cancels_all_and_one_that_ends_takes_the_cluster_with_it(
    engine: SlurmEngine, slurm: FakeSlurm
) -> None:
    handle = await acquire(engine, TWO_GROUPS)
    slurm.jobs[1].state = "NODE_FAIL"
    engine._allocations.watch._began_at = float("-inf")
    assert await engine.observe_all([handle]) == [Observation.GONE]
    assert await engine.exit_reason("f00d", "algo-1") == "A node of the allocation failed."
    await engine.release(handle)
    assert [job.state for job in slurm.jobs] == ["CANCELLED", "NODE_FAIL"]
    assert await engine.sweep(set) == []


async def test_jobs_of_groups_without_a_record_are_swept(engine: SlurmEngine, slurm: FakeSlurm) -> None:
    await acquire(engine, TWO_GROUPS)
    assert await engine.sweep(lambda: {"f00d"}) == []
    assert await engine.sweep(set) == ["f00d"]
    assert [job.state for job in slurm.jobs] == ["CANCELLED"] * 2


# Decisions


def test_groups_are_submitted_in_order_and_each_is_looked_up_by_its_own_number() -> None:
    assert step(of_groups()) == SubmitJob()
    assert isinstance(step(of_groups("")), ReportWait)
    assert step(of_groups("11"), row(job="11")) == SubmitJob()
    lost = of_groups("11", "")
    assert isinstance(step(lost, row(job="11")), ReportWait)
    assert step(lost, row(job="11"), row(job="12", component=1)) == AdoptJob("12")


def test_all_are_launched_together() -> None:
    rows = (row(job="11"), row(job="12", component=1, nodes=("n2",)))
    assert step(of_groups("11", "12"), *rows) == LaunchHosts(rows)


def test_a_group_that_ended_fails_the_launch_although_another_one_waits() -> None:
    rows = (row("TIMEOUT", job="11"), row("PENDING", job="12", component=1))
    assert step(of_groups("11", "12"), *rows) == FailLaunch("11", "TIMEOUT")


@given(st.sampled_from(STATES), st.sampled_from(STATES), st.sampled_from(["Resources", "BadConstraints"]))
def test_two_jobs_are_launched_only_whole_and_wait_only_while_both_may_come(
    first: str, second: str, reason: str
) -> None:
    rows = [
        row(first, job="11", nodes=("n1",), reason=reason),
        row(second, job="12", component=1, nodes=("n2",), reason=reason),
    ]
    found = step(of_groups("11", "12"), *rows)
    states = (first, second)
    if all(state in reasons.RUNNING for state in states):
        assert found == LaunchHosts(tuple(rows))
    elif not all(state in (*reasons.PENDING, *reasons.RUNNING) for state in states):
        assert isinstance(found, FailLaunch | ReportWait | RefuseJob)
        if any(lifecycle.is_ended([each]) for each in rows):
            assert isinstance(found, FailLaunch)
    elif reason == "Resources":
        assert isinstance(found, ReportWait)
    else:
        assert isinstance(found, RefuseJob)


@given(st.lists(st.sampled_from(["", "11", "12"]), max_size=2, unique=True), st.sampled_from([0.0, NOW - 100]))
def test_no_group_is_submitted_twice_or_before_the_one_in_front(ids: list[str], missed_since: float) -> None:
    known = of_groups(*sorted(ids, key=lambda job: job or "99"), missed_since=missed_since)
    if known.is_submitted():
        return
    found = step(known, *(row(job=job, component=number) for number, job in enumerate(known.job_ids())))
    may_come = known.has_begun() and not missed_since
    assert isinstance(found, ReportWait if may_come else SubmitJob)
    assert known.with_job("13", NOW).job_ids() == (*known.job_ids(), "13")


@given(st.integers(0, 40), st.floats(0, 1e6), st.floats(0, 1e6))
def test_node_hours_of_what_is_granted_never_exceed_its_nodes_times_its_time(
    nodes: int, start: float, passed: float
) -> None:
    granted = row(job="11", nodes=tuple(f"n{number}" for number in range(nodes)), start=start)
    said = reasons.format_jobs_of_groups([row("PENDING", job="12")], [granted], start + passed)
    found = re.search(r"for it: ([0-9.e+]+) node hours", said)
    assert found is not None
    assert 0 <= float(found[1]) <= nodes * passed / 3_600 + 1e-6 + float(found[1]) * 1e-5


def test_the_name_of_a_job_has_the_number_of_its_group() -> None:
    assert parsers.split_job_name("smx-0a1b2c3d-f00d:2") == ("smx-0a1b2c3d-f00d", 2)
    assert parsers.split_job_name("smx-0a1b2c3d-f00d") == ("smx-0a1b2c3d-f00d", 0)
    (found,) = parsers.parse_queue("12|smx-0a1b2c3d-f00d:1|RUNNING|N/A|N/A|n2|main|None\n")
    assert (found.name, found.component) == ("smx-0a1b2c3d-f00d", 1)


@pytest.mark.parametrize(
    "text",
    [
        NO_HETEROGENEOUS,
        "sbatch: error: heterogeneous jobs are not allowed on this cluster",
        "sbatch: error: Het jobs have been disabled",
        "sbatch: error: This site does not allow heterogeneous jobs",
    ],
)
def test_words_of_a_site_that_takes_no_heterogeneous_job_are_known(text: str) -> None:
    assert reasons.forbids_heterogeneous(text)


@pytest.mark.parametrize(
    "text", ["sbatch: error: Batch job submission failed: Invalid partition name specified", "", "Socket timed out"]
)
def test_other_refusals_are_none_of_it(text: str) -> None:
    assert not reasons.forbids_heterogeneous(text)


def test_the_option_is_true_or_false() -> None:
    assert job_options.is_heterogeneous({})
    assert not job_options.is_heterogeneous({"heterogeneous": "no"})
    with pytest.raises(RefusedError, match="heterogeneous"):
        job_options.check({"heterogeneous": "perhaps"})


def test_figures_of_several_jobs_are_added_up() -> None:
    rows = [
        parsers.AccountingRow(state="COMPLETED", nodes=1, elapsed=60.0, cpu=5.0, memory=10),
        parsers.AccountingRow(state="TIMEOUT", nodes=2, elapsed=90.0, cpu=None, memory=30),
    ]
    assert allocations.add_rows(rows) == parsers.AccountingRow(
        state="TIMEOUT", nodes=3, elapsed=90.0, cpu=5.0, memory=30
    )
