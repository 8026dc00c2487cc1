"""One step for every job and every cluster, whatever is recorded and seen; and rest when there is nothing to do."""

from __future__ import annotations

import itertools

import pytest
from draws import NOW, a_cluster, a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState, SecondaryStatus, is_final
from jupyter_smx.policy.lifecycle import transitions
from jupyter_smx.policy.lifecycle.dependencies import DependencyState
from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision
from jupyter_smx.policy.lifecycle.next_step import (
    ClusterObservation,
    ClusterStep,
    JobObservation,
    JobStep,
    next_cluster_step,
    next_job_step,
)

TRUTH = (False, True)


def all_progress() -> list[JobObservation]:
    """Everything that can be known of a job on two hosts."""
    rows = []
    for hosts, had, ended in ((0, 0, 0), (2, 0, 0), (2, 1, 0), (2, 2, 0), (2, 1, 1), (2, 2, 1), (2, 2, 2)):
        for connected, dispatched, stop_sent, failed, lost, ran, brought in itertools.product(TRUTH, repeat=7):
            if dispatched and had < hosts:
                continue
            rows.append(
                JobObservation(
                    hosts=hosts,
                    dispatched_hosts=had,
                    ended=ended,
                    connected=connected,
                    dispatched=dispatched,
                    stop_sent=stop_sent,
                    failed=failed,
                    hosts_lost=lost,
                    code_started=ran,
                    files_provided=brought,
                )
            )
    return rows


def all_clusters() -> list[Cluster | None]:
    return [None, *(a_cluster(state=state) for state in ClusterState)]


@pytest.mark.parametrize("state", SecondaryStatus)
@pytest.mark.parametrize("goal", DesiredState)
def test_every_job_has_a_step_and_a_job_with_a_verdict_has_nothing_left(
    state: SecondaryStatus, goal: DesiredState
) -> None:
    job = a_job(state=state, goal=goal, cluster="c1")
    for cluster, progress in itertools.product(all_clusters(), all_progress()):
        step = next_job_step(job, cluster, progress)
        assert isinstance(step, JobStep)
        assert step is next_job_step(job, cluster, progress)
        if is_final(state):
            assert step is JobStep.NOTHING


def steps_where(goal: DesiredState) -> list[tuple[Cluster | None, JobObservation, JobStep]]:
    job = a_job(state=SecondaryStatus.STARTING, goal=goal, cluster="c1")
    return [(c, p, next_job_step(job, c, p)) for c, p in itertools.product(all_clusters(), all_progress())]


def test_a_job_that_should_stop_is_never_placed_nor_given_to_hosts() -> None:
    for _, _, step in steps_where(DesiredState.STOP):
        assert step not in {JobStep.PLACE, JobStep.DISPATCH, JobStep.RESET_PLACEMENT}


def test_a_job_is_given_to_hosts_only_when_they_can_reach_what_it_needs() -> None:
    steps = [(progress.files_provided, step) for goal in DesiredState for _, progress, step in steps_where(goal)]
    assert (False, JobStep.DISPATCH) not in steps
    assert (True, JobStep.PROVIDE_FILES) not in steps
    assert {(True, JobStep.DISPATCH), (False, JobStep.PROVIDE_FILES)} <= {*steps}


@pytest.mark.parametrize(
    ("image", "waits", "prepared", "step"),
    [
        ("train:1", True, False, JobStep.PREPARE),
        ("train:1", True, True, JobStep.WAIT_FOR_DEPENDENCIES),
        ("train:1", False, False, JobStep.PREPARE),
        ("train:1", False, True, JobStep.PLACE),
        ("", True, False, JobStep.WAIT_FOR_DEPENDENCIES),
        ("", True, True, JobStep.WAIT_FOR_DEPENDENCIES),
        ("", False, False, JobStep.PREPARE),
        ("", False, True, JobStep.PLACE),
    ],
)
def test_an_image_is_settled_before_a_job_waits_for_others_and_an_environment_is_built_after(
    image: str, waits: bool, prepared: bool, step: JobStep
) -> None:
    job = a_job(spec=a_spec(image=image))
    order = DependencyState(waits_for=("first",) if waits else ())
    assert next_job_step(job, None, JobObservation(prepared=prepared), order) is step
    ended = replace(order, verdict=SecondaryStatus.FAILED)
    assert next_job_step(job, None, JobObservation(prepared=prepared), ended) is JobStep.END_BLOCKED
    assert next_job_step(replace(job, goal=DesiredState.STOP), None, JobObservation(prepared=prepared), order) is (
        JobStep.STOP_BEFORE_START
    )


def test_code_that_may_have_begun_is_never_begun_again() -> None:
    for goal in DesiredState:
        for cluster, progress, step in steps_where(goal):
            if cluster is not None and progress.hosts_lost and progress.code_started:
                assert step in {JobStep.FINALIZE, JobStep.FINALIZE_LOST}


def test_a_job_whose_code_may_run_on_any_host_is_never_ended_as_one_that_never_ran() -> None:
    for goal in DesiredState:
        for cluster, progress, step in steps_where(goal):
            if cluster is not None and (progress.dispatched or progress.dispatched_hosts):
                assert step is not JobStep.STOP_BEFORE_START


@pytest.mark.parametrize("goal", [DesiredState.STOP, DesiredState.EXPIRE])
@pytest.mark.parametrize(
    ("given", "ended", "stop_sent", "step"),
    [
        (0, 0, False, JobStep.STOP_BEFORE_START),
        (1, 0, False, JobStep.SEND_STOP),
        (1, 0, True, JobStep.NOTHING),
        (1, 1, False, JobStep.FINALIZE),
        (1, 1, True, JobStep.FINALIZE),
        (2, 1, False, JobStep.SEND_STOP),
        (2, 1, True, JobStep.NOTHING),
    ],
)
def test_a_job_that_should_end_is_stopped_where_it_is_and_given_to_no_more_hosts(
    goal: DesiredState, given: int, ended: int, step: JobStep, *, stop_sent: bool
) -> None:
    job = a_job(state=SecondaryStatus.STOPPING, goal=goal, cluster="c1")
    known = JobObservation(hosts=3, connected=True, dispatched_hosts=given, ended=ended, stop_sent=stop_sent)
    assert next_job_step(job, a_cluster(state=ClusterState.IN_USE), known) is step


def test_hosts_are_told_something_only_over_an_open_stream_while_they_are_the_jobs() -> None:
    for goal in DesiredState:
        for cluster, progress, step in steps_where(goal):
            if step in {JobStep.DISPATCH, JobStep.SEND_STOP}:
                assert progress.connected
                assert cluster is not None
                assert cluster.state is ClusterState.IN_USE


def test_the_verdict_waits_for_the_record_of_every_host() -> None:
    for goal in DesiredState:
        for _, progress, step in steps_where(goal):
            if step is JobStep.FINALIZE:
                assert progress.ended == progress.dispatched_hosts > 0
                assert progress.ended == progress.hosts or goal in TERMINAL_GOALS


def test_one_host_that_failed_stops_the_others_once() -> None:
    job, cluster = a_job(state=SecondaryStatus.TRAINING, cluster="c1"), a_cluster(state=ClusterState.IN_USE)
    one_failed = JobObservation(hosts=2, ended=1, connected=True, dispatched=True, failed=True)
    assert next_job_step(job, cluster, one_failed) is JobStep.SEND_STOP
    assert next_job_step(job, cluster, replace(one_failed, stop_sent=True)) is JobStep.NOTHING
    assert next_job_step(job, cluster, replace(one_failed, failed=False)) is JobStep.NOTHING


@pytest.mark.parametrize("state", ClusterState)
def test_every_cluster_has_a_step_and_one_action_at_a_time(state: ClusterState) -> None:
    for connected, gone, busy in itertools.product(TRUTH, repeat=3):
        for expires_at in (None, NOW - 1, NOW, NOW + 1):
            cluster = a_cluster(state=state, expires_at=expires_at)
            step = next_cluster_step(cluster, ClusterObservation(connected=connected, gone=gone, busy=busy), NOW)
            assert isinstance(step, ClusterStep)
            if busy or state is ClusterState.TERMINATED:
                assert step is ClusterStep.NOTHING


@pytest.mark.parametrize(
    ("state", "seen", "expires_at", "step"),
    [
        (ClusterState.PROVISIONING, ClusterObservation(), None, ClusterStep.ACQUIRE),
        (ClusterState.PROVISIONING, ClusterObservation(gone=True), None, ClusterStep.ACQUIRE),
        (ClusterState.IN_USE, ClusterObservation(), None, ClusterStep.CONNECT),
        (ClusterState.IN_USE, ClusterObservation(connected=True), None, ClusterStep.NOTHING),
        (ClusterState.IN_USE, ClusterObservation(gone=True), None, ClusterStep.HANDLE_LOST),
        (ClusterState.AVAILABLE, ClusterObservation(connected=True), NOW + 1, ClusterStep.NOTHING),
        (ClusterState.AVAILABLE, ClusterObservation(), NOW + 1, ClusterStep.CONNECT),
        (ClusterState.AVAILABLE, ClusterObservation(connected=True), NOW, ClusterStep.RELEASE),
        (ClusterState.AVAILABLE, ClusterObservation(gone=True), NOW + 1, ClusterStep.TERMINATE_IDLE),
        (ClusterState.AVAILABLE, ClusterObservation(gone=True), NOW - 1, ClusterStep.TERMINATE_IDLE),
        (ClusterState.RELEASING, ClusterObservation(gone=True), None, ClusterStep.RELEASE),
        (ClusterState.RELEASING, ClusterObservation(connected=True), None, ClusterStep.RELEASE),
    ],
)
def test_the_step_of_a_cluster(
    state: ClusterState, seen: ClusterObservation, expires_at: float | None, step: ClusterStep
) -> None:
    assert next_cluster_step(a_cluster(state=state, expires_at=expires_at), seen, NOW) is step


def test_a_busy_cluster_is_never_released_for_its_age() -> None:
    busy = a_cluster(state=ClusterState.IN_USE, expires_at=NOW - 100)
    assert next_cluster_step(busy, ClusterObservation(connected=True), NOW) is ClusterStep.NOTHING


@given(st.sampled_from(list(ClusterState)), st.floats(min_value=-100, max_value=100), st.booleans())
def test_with_no_demand_every_cluster_comes_to_rest_and_stays_there(
    state: ClusterState, left: float, gone: bool
) -> None:
    """No demand means no recreation: the loop of bug 7 has no place to begin."""
    cluster, now = a_cluster(state=state, expires_at=NOW + left, created_at=NOW), NOW
    connected, seen_states = False, [state]
    for _ in range(20):
        step = next_cluster_step(cluster, ClusterObservation(connected=connected, gone=gone), now)
        if step is ClusterStep.ACQUIRE:
            cluster = replace(cluster, state=ClusterState.IN_USE)
            cluster = transitions.detach_job(cluster, "job", KeepDecision(60), now)
        elif step in {ClusterStep.RELEASE, ClusterStep.TERMINATE_IDLE, ClusterStep.HANDLE_LOST}:
            cluster = transitions.mark_terminated(cluster, "", now)
        elif step is ClusterStep.CONNECT:
            connected = True
        now += 30
        seen_states.append(cluster.state)
    assert cluster.state in {ClusterState.TERMINATED, ClusterState.IN_USE}
    assert next_cluster_step(cluster, ClusterObservation(connected=True), now) is ClusterStep.NOTHING
    assert ClusterState.PROVISIONING not in seen_states[1:]
    after_the_end = seen_states[seen_states.index(ClusterState.TERMINATED) :] if not cluster.is_live() else []
    assert set(after_the_end) <= {ClusterState.TERMINATED}
