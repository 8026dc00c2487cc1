"""What follows for an allocation, from its record and what Slurm lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_requests import record, row

from jupyter_smx.agent.remote import allocation
from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.slurm import lifecycle, reasons
from jupyter_smx.engines.slurm.lifecycle import AdoptJob, FailLaunch, LaunchHosts, RefuseJob, ReportWait, SubmitJob

if TYPE_CHECKING:
    from jupyter_smx.engines.slurm.parsers import QueueRow
    from jupyter_smx.engines.slurm.record import AllocationRecord

NOW = 2_000.0


def step(known: AllocationRecord, *rows: QueueRow, nodes: int = 3, now: float = NOW) -> lifecycle.Step:
    jobs: dict[str, list[QueueRow]] = {}
    for each in rows:
        jobs.setdefault(each.job, []).append(each)
    return lifecycle.next_step(known, jobs, now, {"main": nodes})


def test_what_was_never_submitted_is_submitted() -> None:
    assert step(record(job="", submitted_at=0.0)) == SubmitJob()


def test_a_submission_without_an_answer_is_looked_up_before_another_one() -> None:
    lost = record(job="", submitted_at=NOW - 60)
    assert isinstance(step(lost), ReportWait)
    early = record(job="", submitted_at=NOW - 60, missed_since=NOW - lifecycle.LATE_SUBMISSION + 1)
    assert isinstance(step(early), ReportWait)
    late = record(job="", submitted_at=NOW - 60, missed_since=NOW - lifecycle.LATE_SUBMISSION)
    assert step(late) == SubmitJob()


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "CONFIGURING"])
def test_a_job_of_the_name_is_adopted_and_later_ones_are_cancelled(state: str) -> None:
    lost = record(job="", submitted_at=NOW - 60)
    assert step(lost, row(state, job="9"), row(state, job="10")) == AdoptJob("9", ("10",))


def test_a_job_of_the_name_that_has_ended_is_not_adopted() -> None:
    lost = record(job="", submitted_at=NOW - 60, missed_since=NOW - 60)
    assert step(lost, row("CANCELLED", job="9")) == SubmitJob()


def test_a_pending_job_waits_with_the_reason_and_the_estimate_of_slurm() -> None:
    found = step(record(), row("PENDING", reason="Resources", start=3_000.0))
    assert isinstance(found, ReportWait)
    assert found.status.reason == "Resources: the nodes are in use (Slurm job 12)"
    assert found.status.expected_start == 3_000.0


def test_a_heterogeneous_job_waits_for_its_last_component() -> None:
    two = record(components={"algo-1": 0, "algo-2": 1})
    rows = [row("PENDING", reason="None"), row("PENDING", component=1, reason="Priority", start=5_000.0)]
    found = step(two, *rows)
    assert isinstance(found, ReportWait)
    assert found.status.expected_start == 5_000.0


def test_a_running_job_is_launched_when_all_components_have_nodes() -> None:
    two = record(components={"algo-1": 0, "algo-2": 1})
    leader, other = row(), row(component=1, nodes=("n2",))
    assert step(two, leader, other) == LaunchHosts((leader, other))
    assert isinstance(step(two, leader, row("PENDING", component=1)), ReportWait)


@pytest.mark.parametrize(
    "reason",
    ["PartitionTimeLimit", "BadConstraints", "InvalidAccount", "QOSMaxNodePerJobLimit", "AssocMaxCpuPerJobLimit"],
)
def test_a_reason_that_cannot_pass_is_a_refusal_with_slurms_word_and_a_cure(reason: str) -> None:
    found = step(record(), row("PENDING", reason=reason))
    assert isinstance(found, RefuseJob)
    assert found.job == "12"
    assert not found.error.transient
    assert reason in found.error.message
    assert found.error.cure


def test_a_job_below_the_least_size_of_a_qos_needs_a_larger_type() -> None:
    found = step(record(), row("PENDING", reason="QOSMinGRES"))
    assert isinstance(found, RefuseJob)
    assert "larger" in (found.error.cure or "")


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        "QOSMaxJobsPerUserLimit",
        "AssocGrpNodeLimit",
        "JobHeldUser",
        "Dependency",
        "Licenses",
        "",
    ],
)
def test_a_reason_that_can_pass_is_waited_for(reason: str) -> None:
    assert isinstance(step(record(), row("PENDING", reason=reason)), ReportWait)


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "ReqNodeNotAvail, UnavailableNodes:n[1-3]"])
def test_more_nodes_than_there_are_is_a_refusal_and_nodes_that_are_down_are_waited_for(reason: str) -> None:
    nine = record(components={f"algo-{number}": 0 for number in range(1, 10)})
    assert isinstance(step(nine, row("PENDING", reason=reason.partition(",")[0]), nodes=3), RefuseJob)
    assert isinstance(step(nine, row("PENDING", reason=reason), nodes=9), ReportWait)


@pytest.mark.parametrize(("nodes", "cure"), [(3, "fewer hosts"), (9, "constraint=")])
def test_a_partition_that_has_not_so_many_nodes_is_cured_by_fewer_hosts(nodes: int, cure: str) -> None:
    nine = record(components={f"algo-{number}": 0 for number in range(1, 10)})
    found = step(nine, row("PENDING", reason="PartitionConfig"), nodes=nodes)
    assert isinstance(found, RefuseJob)
    assert cure in (found.error.cure or "")


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "NODE_FAIL", "FAILED", "COMPLETED", "PREEMPTED"])
def test_a_job_that_ended_fails_the_launch(state: str) -> None:
    assert step(record(), row(state)) == FailLaunch("12", state)


def test_a_job_that_slurm_does_not_list_has_ended() -> None:
    assert step(record()) == FailLaunch("12", "")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("RUNNING")], Observation.RUNNING),
        ([row("SUSPENDED", nodes=("n1",))], Observation.RUNNING),
        ([row("PENDING")], Observation.GONE),  # it was queued again
        ([row("COMPLETING", end=NOW - 1)], Observation.UNKNOWN),
        ([row("COMPLETING", end=NOW - 90)], Observation.GONE),
        ([row("CANCELLED")], Observation.GONE),
        ([], Observation.GONE),
        ([row("RUNNING"), row("NODE_FAIL", component=1)], Observation.GONE),
    ],
)
def test_a_cluster_is_what_slurm_says_of_its_job(rows: list[QueueRow], expected: Observation) -> None:
    assert lifecycle.observe(record(), ["12"], {"12": rows} if rows else {}, NOW, has_hosts=True) is expected


def test_a_cluster_without_a_job_is_unknown_while_it_is_on_record() -> None:
    assert lifecycle.observe(record(job=""), [], {}, NOW, has_hosts=False) is Observation.UNKNOWN
    assert lifecycle.observe(None, [], {}, NOW, has_hosts=False) is Observation.GONE


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_job_without_hosts_is_unknown_since_a_launch_may_be_under_way(state: str) -> None:
    assert lifecycle.observe(record(), ["12"], {"12": [row(state)]}, NOW, has_hosts=False) is Observation.UNKNOWN


def test_a_job_has_ended_when_no_component_is_completing() -> None:
    assert lifecycle.is_ended([row("COMPLETED"), row("CANCELLED")])
    assert not lifecycle.is_ended([row("COMPLETED"), row("COMPLETING")])
    assert lifecycle.is_ended([])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("CANCELLED by 1000", "cancelled by user 1000"),
        ("TIMEOUT", "time limit"),
        ("PREEMPTED", "higher priority"),
        ("NODE_FAIL", "node"),
        ("OUT_OF_MEMORY", "memory"),
        ("", "no such job"),
    ],
)
def test_the_end_of_a_job_is_a_sentence(state: str, words: str) -> None:
    said = reasons.end_sentence(state, {})
    assert words in said
    assert said.endswith(".")


STATES = (*reasons.PENDING, *reasons.RUNNING, *reasons.COMPLETING, "COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(STATES)), max_size=6),
    st.sampled_from([0.0, NOW - 1, NOW - 100]),
    st.sampled_from([0.0, NOW - 1, NOW - 100]),
)
def test_no_second_job_is_submitted_while_one_lives_or_may_still_come(
    jobs: list[tuple[int, str]], submitted_at: float, missed_since: float
) -> None:
    rows = [row(state, job=str(job)) for job, state in dict(jobs).items()]
    found = step(record(job="", submitted_at=submitted_at, missed_since=missed_since), *rows)
    live = sorted(int(each.job) for each in rows if each.state in (*reasons.PENDING, *reasons.RUNNING))
    if live:
        assert found == AdoptJob(str(live[0]), tuple(map(str, live[1:])))
    else:
        may_come = submitted_at and not (missed_since and NOW - missed_since >= lifecycle.LATE_SUBMISSION)
        assert isinstance(found, ReportWait if may_come else SubmitJob)


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=3))
def test_a_job_with_components_is_launched_waited_for_or_over_and_never_refused_without_a_reason(
    states: list[str],
) -> None:
    rows = [row(state, component=number, nodes=("n1",)) for number, state in enumerate(states)]
    found = step(record(components={f"algo-{number}": number for number in range(len(states))}), *rows)
    if any(state in reasons.PENDING for state in states):
        assert isinstance(found, ReportWait)
    elif all(state in reasons.RUNNING for state in states):
        assert found == LaunchHosts(tuple(rows))
    else:
        assert isinstance(found, FailLaunch)
        assert found.state not in reasons.RUNNING


def test_the_parent_of_a_host_has_the_name_that_it_has_on_the_node() -> None:
    names = [allocation.parent_name("12", group) for group in (0, 1)]
    of_two = record(components={"algo-1": 0, "algo-2": 1})
    assert [of_two.parent_of(host) for host in ("algo-1", "algo-2")] == names
    assert record().parent_of("algo-1") == allocation.parent_name("12", None)
    assert len({*names, "12"}) == 3
