"""A job comes after others: it begins when all completed, waits for one that goes on, ends when one did not."""

from __future__ import annotations

import pytest
from draws import a_cluster, a_job
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import DesiredState, SecondaryStatus, Status
from jupyter_smx.policy.lifecycle.dependencies import (
    NO_DEPENDENCIES,
    PREFIX,
    DependencyState,
    Predecessor,
    resolve_dependencies,
)
from jupyter_smx.policy.lifecycle.next_step import JobObservation, JobStep, next_job_step

GOING = (Status.IN_PROGRESS, Status.STOPPING)

predecessors = st.lists(
    st.builds(
        Predecessor,
        name=st.sampled_from(["prep", "train-1", "train-2"]),
        status=st.one_of(st.none(), st.sampled_from(Status)),
        reason=st.sampled_from(["", "AlgorithmError: KeyError", f"{PREFIX}prep failed: AlgorithmError: KeyError"]),
    ),
    max_size=6,
)


@given(predecessors)
def test_it_begins_when_all_have_completed_and_never_before(rows: list[Predecessor]) -> None:
    order = resolve_dependencies(rows)
    assert order.is_satisfied() == all(each.status is Status.COMPLETED for each in rows)
    assert bool(order.waits_for) + (order.verdict is not None) + order.is_satisfied() == 1


def test_an_order_says_whom_it_waits_for_also_when_that_is_nobody() -> None:
    assert NO_DEPENDENCIES.sentence() == "Queued."
    assert DependencyState(waits_for=("prep", "clean")).sentence() == "Queued. Waiting for prep and clean."
    assert DependencyState(waits_for=tuple("abcde")).sentence() == "Queued. Waiting for a, b, c and 2 more."


@given(predecessors)
def test_the_first_that_did_not_complete_decides_how_it_ends(rows: list[Predecessor]) -> None:
    order = resolve_dependencies(rows)
    bad = [each for each in rows if each.status in {None, Status.FAILED, Status.STOPPED}]
    if not bad:
        assert order.verdict is None
        assert order.waits_for == tuple(each.name for each in rows if each.status in GOING)
        return
    stopped = bad[0].status is Status.STOPPED
    assert order.verdict is (SecondaryStatus.STOPPED if stopped else SecondaryStatus.FAILED)
    assert bad[0].name in order.reason
    assert order.reason.startswith(PREFIX) is not stopped
    assert order.reason.count(PREFIX) <= 1, "a chain names its jobs, not its prefixes"


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9))
def test_a_sentence_names_three_and_counts_the_others(names: list[str]) -> None:
    sentence = DependencyState(waits_for=tuple(names)).sentence()
    assert sentence.startswith(f"Queued. Waiting for {names[0]}")
    assert ("more" in sentence) == (len(names) > 3)


@pytest.mark.parametrize(
    ("goal", "order", "step"),
    [
        (DesiredState.RUN, NO_DEPENDENCIES, JobStep.PLACE),
        (DesiredState.RUN, DependencyState(waits_for=("prep",)), JobStep.WAIT_FOR_DEPENDENCIES),
        (DesiredState.RUN, DependencyState(verdict=SecondaryStatus.FAILED), JobStep.END_BLOCKED),
        (DesiredState.RUN, DependencyState(verdict=SecondaryStatus.STOPPED), JobStep.END_BLOCKED),
        (DesiredState.STOP, DependencyState(waits_for=("prep",)), JobStep.STOP_BEFORE_START),
        (DesiredState.STOP, DependencyState(verdict=SecondaryStatus.FAILED), JobStep.STOP_BEFORE_START),
    ],
)
def test_the_step_of_a_job_without_hosts(goal: DesiredState, order: DependencyState, step: JobStep) -> None:
    assert next_job_step(a_job(goal=goal), None, JobObservation(), order) is step


@given(st.sampled_from(DesiredState), predecessors, st.sampled_from(ClusterState))
def test_whoever_has_hosts_has_begun_whatever_the_order_says(
    goal: DesiredState, rows: list[Predecessor], state: ClusterState
) -> None:
    job, cluster = a_job(goal=goal, cluster="c1"), a_cluster(state=state)
    assert next_job_step(job, cluster, JobObservation(), resolve_dependencies(rows)) is next_job_step(
        job, cluster, JobObservation()
    )
