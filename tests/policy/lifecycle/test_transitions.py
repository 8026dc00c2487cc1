"""Records only move on: a job's steps, a pool's life, and what a job's record says of the pool it left."""

from __future__ import annotations

import itertools

import pytest
from draws import NOW, a_cluster, a_job
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.records.cluster import Cluster, ClusterState, WarmPoolStatus
from jupyter_smx.model.status import SecondaryStatus, can_transition, is_final, message_of
from jupyter_smx.policy.lifecycle import transitions
from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision

steps = st.sampled_from(list(SecondaryStatus))


@given(st.lists(st.tuples(steps, st.floats(min_value=0, max_value=100)), max_size=12))
def test_whatever_news_comes_a_job_moves_on_and_its_table_has_no_gap(news: list[tuple[SecondaryStatus, float]]) -> None:
    job, now = a_job(), NOW
    for state, seconds in news:
        now += seconds
        before = job
        job = transitions.advance(before, state, now)
        assert (job is not before) == can_transition(before.state, state)
        assert job.state is (state if job is not before else before.state)
    rows = job.transitions
    assert [row.status for row in rows] == sorted({row.status for row in rows}, key=[r.status for r in rows].index)
    for row, following in itertools.pairwise(rows):
        assert can_transition(row.status, following.status)
        assert row.end_time == following.start_time
    if rows:
        assert (rows[-1].end_time is not None) == is_final(job.state) == (job.ended_at is not None)


def test_the_bill_begins_when_the_hosts_are_the_jobs_and_once() -> None:
    job = transitions.advance(a_job(), SecondaryStatus.STARTING, NOW)
    assert job.started_at is None
    job = transitions.advance(job, SecondaryStatus.DOWNLOADING, NOW + 1)
    job = transitions.advance(job, SecondaryStatus.TRAINING, NOW + 2)
    assert job.started_at == NOW + 1


def test_a_step_without_a_message_of_its_own_says_the_usual_one() -> None:
    job = transitions.advance(a_job(), SecondaryStatus.STARTING, NOW)
    assert job.transitions[-1].status_message == message_of(SecondaryStatus.STARTING)
    job = transitions.advance(job, SecondaryStatus.TRAINING, NOW, "Off it goes.")
    assert job.transitions[-1].status_message == "Off it goes."


def test_each_lease_is_higher_than_the_one_before() -> None:
    pool, leases = a_cluster(lease=0), []
    for number in range(5):
        pool = transitions.lease_pool(pool, f"job{number}", NOW)
        leases.append(pool.lease)
        pool = transitions.detach_job(pool, f"name{number}", KeepDecision(600), NOW)
    assert leases == [1, 2, 3, 4, 5]
    assert pool.jobs_served == 5
    assert pool.last_job == "name4"


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=1e4), st.floats(min_value=0, max_value=1e4)), max_size=8))
def test_idle_seconds_are_counted_once_whatever_happens_to_the_pool(story: list[tuple[float, float]]) -> None:
    pool, now, idle = a_cluster(state=ClusterState.IN_USE, available_since=None), NOW, 0.0
    for waits, works in story:
        pool = transitions.detach_job(pool, "job", KeepDecision(100_000), now)
        now += waits
        idle += waits
        assert transitions.idle_seconds(pool, now) == pytest.approx(waits, abs=1e-3)
        pool = transitions.lease_pool(pool, "next", now)
        assert transitions.idle_seconds(pool, now + works) == 0
        now += works
    pool = transitions.detach_job(pool, "job", KeepDecision(100_000), now)
    ended = transitions.mark_terminated(transitions.release(pool, "", now + 7), "", now + 50)
    assert ended.retained_seconds == pytest.approx(idle + 7, abs=1e-2)


def test_the_keep_alive_of_a_pool_is_the_last_jobs() -> None:
    pool = transitions.detach_job(a_cluster(), "first", KeepDecision(600), NOW)
    pool = transitions.lease_pool(pool, "id2", NOW + 100)
    assert (pool.expires_at, pool.available_since) == (None, None)
    pool = transitions.detach_job(pool, "second", KeepDecision(60), NOW + 200)
    assert pool.expires_at == NOW + 260


def test_a_pool_that_is_not_kept_leaves_and_says_why() -> None:
    pool = transitions.detach_job(a_cluster(), "job", KeepDecision(0, "Quota."), NOW)
    assert pool.state is ClusterState.RELEASING
    assert transitions.mark_terminated(pool, "", NOW).reason == "Quota."
    assert transitions.mark_terminated(pool, "Lost.", NOW).reason == "Lost."


@pytest.mark.parametrize("state", ClusterState)
def test_an_ended_cluster_holds_nothing(state: ClusterState) -> None:
    ended: Cluster = transitions.mark_terminated(a_cluster(state=state, job="j"), "", NOW)
    assert not ended.is_live()
    assert (ended.job, ended.expires_at, ended.available_since, ended.ended_at) == ("", None, None, NOW)


def test_the_warm_pool_status_of_a_job_goes_through_the_table_of_the_contract() -> None:
    first = a_job(warm_pool=transitions.pool_of_job(KeepDecision(600)))
    assert first.warm_pool is not None
    assert first.warm_pool.status is WarmPoolStatus.AVAILABLE
    reused = transitions.set_pool_reused(first, "train-2", 12.4).warm_pool
    assert reused is not None
    assert (reused.status, reused.reused_by_job, reused.resource_retained_billable_seconds) == (
        WarmPoolStatus.REUSED,
        "train-2",
        12,
    )
    ended = transitions.set_pool_terminated(first, "Released by the user.", 600.0).warm_pool
    assert ended is not None
    assert (ended.status, ended.reused_by_job, ended.resource_retained_billable_seconds, ended.reason) == (
        WarmPoolStatus.TERMINATED,
        "",
        600,
        "Released by the user.",
    )
    not_kept = transitions.pool_of_job(KeepDecision(0, "Quota."))
    assert (not_kept.status, not_kept.reason) == (WarmPoolStatus.TERMINATED, "Quota.")


def test_the_end_of_a_job_keeps_how_long_it_ran() -> None:
    job = transitions.advance(a_job(), SecondaryStatus.STARTING, NOW)
    job = transitions.advance(job, SecondaryStatus.TRAINING, NOW + 1)
    job = transitions.advance(job, SecondaryStatus.STOPPING, NOW + 11)
    job = transitions.advance(job, SecondaryStatus.STOPPED, NOW + 12)
    assert job.ran_seconds == pytest.approx(11)


def test_an_attempt_of_which_nobody_heard_counts_from_when_hosts_were_looked_for() -> None:
    job = transitions.advance(a_job(cluster="c1"), SecondaryStatus.STARTING, NOW)
    again = transitions.start_next_attempt(job, "lost", (), NOW + 5)
    assert [(one.started_at, one.ended_at) for one in again.attempts] == [(NOW, NOW + 5)]


def test_a_clock_that_was_set_moves_the_times_of_an_idle_pool_only() -> None:
    pool = transitions.shift_pool_times(a_cluster(available_since=NOW, expires_at=NOW + 60), 3_600)
    assert (pool.available_since, pool.expires_at) == (NOW + 3_600, NOW + 3_660)
    busy = transitions.shift_pool_times(a_cluster(available_since=None, expires_at=None), 3_600)
    assert (busy.available_since, busy.expires_at) == (None, None)


def test_a_job_whose_image_is_downloaded_has_a_row_for_that_and_waits_then() -> None:
    job = transitions.advance(a_job(), SecondaryStatus.STARTING, NOW)
    job = transitions.record_image_pull(job, "1 of 2 MiB", NOW + 1)
    job = transitions.record_image_pull(job, "2 of 2 MiB", NOW + 2)
    job = transitions.record_image_pulled(job, "It waits.", NOW + 3)
    job = transitions.record_image_pulled(job, "It waits in line.", NOW + 4)
    rows = [(row.status, row.start_time, row.end_time, row.status_message) for row in job.transitions[1:]]
    assert rows == [
        (SecondaryStatus.DOWNLOADING, NOW + 1, NOW + 3, "2 of 2 MiB"),
        (SecondaryStatus.PENDING, NOW + 3, None, "It waits in line."),
    ]
    assert job.started_at is None, "nobody pays for the download"
