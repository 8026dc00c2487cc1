"""When a pool gets another allocation, and what becomes of both."""

from __future__ import annotations

from typing import Any

import pytest
from draws import NOW, a_cluster, a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceLimitError
from jupyter_smx.model.records.cluster import Cluster, ClusterState, Handle, QueueStatus, Renewal
from jupyter_smx.policy.lifecycle import keep_alive, launch, renewal, transitions
from jupyter_smx.policy.lifecycle.renewal import RenewalStep
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling import reuse
from jupyter_smx.policy.scheduling.placement import Join, Launch, PlacementSnapshot, place

LIVE = (ClusterState.PROVISIONING, ClusterState.IN_USE, ClusterState.AVAILABLE, ClusterState.RELEASING)


def a_pool(*, left: float = 300.0, kept: float | None = 900.0, lead: float = 600.0, **fields: Any) -> Cluster:
    """Give an idle pool, of whose allocation and of whose keep-alive so many seconds are left."""
    end = NOW + left
    plan = Renewal(at=end - lead, seconds=3_600.0)
    handle = Handle(engine="slurm", cluster="c", allocation_ends_at=end, renewal=plan)
    usual: dict[str, Any] = {
        "state": ClusterState.AVAILABLE,
        "expires_at": None if kept is None else NOW + kept,
        "keep_alive": 900,
        "handle": handle,
    }
    return replace(a_cluster("old"), **(usual | fields))


def a_successor(pool: Cluster, **fields: Any) -> Cluster:
    return replace(renewal.successor_of(pool, None, "new", NOW), **fields)


def step(pool: Cluster, successor: Cluster | None = None, now: float = NOW) -> RenewalStep:
    return renewal.next_renewal_step(pool, None, successor, now)


@given(
    st.sampled_from(LIVE),
    st.integers(-10, 4_000),
    st.one_of(st.none(), st.integers(-10, 8_000)),
    st.integers(0, 1_000),
    st.integers(0, 3_600),
)
def test_only_a_pool_that_is_kept_beyond_its_allocation_is_renewed_and_not_before_the_lead(
    state: ClusterState, left: int, kept: int | None, lead: int, seconds: int
) -> None:
    pool = a_pool(left=left, kept=kept, lead=lead, state=state, keep_alive=seconds)
    found = step(pool)
    is_time = 0 < left <= lead
    if state is ClusterState.AVAILABLE:
        expected = is_time and kept is not None and kept > left
    elif state is ClusterState.IN_USE:
        expected = is_time and seconds > left
    else:
        expected = False
    assert (found is RenewalStep.REQUEST) == expected
    if expected:
        fresh = renewal.successor_of(pool, None, "new", NOW)
        assert fresh.key == pool.key
        assert fresh.expires_at is not None
        assert pool.handle is not None
        assert fresh.expires_at > (pool.handle.allocation_ends_at or 0.0)
        assert step(replace(pool, renewed_by="new"), fresh) is RenewalStep.NOTHING
        assert step(replace(pool, renewed_by="new")) is RenewalStep.NOTHING, "it is requested once"


@pytest.mark.parametrize("handle", [None, Handle(engine="slurm", cluster="c", allocation_ends_at=NOW + 60.0)])
def test_hosts_without_a_renewal_are_not_renewed(handle: Handle | None) -> None:
    assert step(a_pool(handle=handle)) is RenewalStep.NOTHING


def test_the_keep_alive_of_a_job_counts_while_it_runs() -> None:
    pool = a_pool(kept=None, state=ClusterState.IN_USE, keep_alive=0, job="j")
    for seconds, expected in ((0, RenewalStep.NOTHING), (60, RenewalStep.NOTHING), (900, RenewalStep.REQUEST)):
        job = a_job(spec=a_spec(keep_alive=seconds))
        assert renewal.next_renewal_step(pool, job, None, NOW) is expected


def test_hosts_that_are_kept_for_an_array_are_not_renewed() -> None:
    assert step(a_pool(kept_for="array")) is RenewalStep.NOTHING


def test_a_successor_follows_what_becomes_of_the_pool() -> None:
    pool = a_pool()
    waits = a_successor(pool, waiting=QueueStatus("Priority"))
    assert step(pool, waits) is RenewalStep.NOTHING
    for one in (waits, a_successor(pool, state=ClusterState.AVAILABLE)):
        longer = a_pool(state=ClusterState.IN_USE, keep_alive=1_200)
        assert step(longer, one) is RenewalStep.SET_END
        same = replace(one, expires_at=renewal.kept_until(longer, None))
        assert step(longer, replace(same, keep_alive=900)) is RenewalStep.SET_END
        assert step(longer, replace(same, keep_alive=1_200)) is RenewalStep.NOTHING
    assert step(a_pool(kept=1_200.0), waits) is RenewalStep.SET_END
    assert step(a_pool(kept=200.0), waits) is RenewalStep.WITHDRAW, "the keep-alive ends before the allocation"
    assert step(a_pool(state=ClusterState.RELEASING), waits) is RenewalStep.NOTHING
    again, gone = renewal.withdraw(replace(pool, renewed_by="new"), waits, NOW)
    assert step(again) is RenewalStep.REQUEST
    assert launch.is_unwanted(gone, None, NOW)


def test_an_idle_pool_is_handed_over_and_a_busy_one_goes_on() -> None:
    pool = a_pool()
    ready = a_successor(pool, state=ClusterState.AVAILABLE)
    assert step(pool, ready) is RenewalStep.HAND_OVER
    busy = a_pool(state=ClusterState.IN_USE)
    ready = replace(ready, expires_at=renewal.kept_until(busy, None))
    assert step(busy, ready) is RenewalStep.NOTHING
    for state in (ClusterState.IN_USE, ClusterState.PROVISIONING):
        assert step(pool, replace(ready, state=state, job="j")) is RenewalStep.NOTHING


def test_a_ready_successor_ends_with_a_pool_that_is_not_kept_unless_a_job_had_it() -> None:
    ready = a_successor(a_pool(), state=ClusterState.AVAILABLE)
    for pool in (a_pool(keep_alive=0, state=ClusterState.IN_USE), a_pool(kept=200.0)):
        assert step(pool, ready) is RenewalStep.WITHDRAW
        assert step(pool, replace(ready, jobs_served=1)) is RenewalStep.NOTHING
    (gone,) = renewal.ended_with(ready, NOW)
    assert (gone.state, gone.reason) == (ClusterState.RELEASING, renewal.NOT_KEPT)
    for kept in (replace(ready, job="j"), replace(ready, jobs_served=1), replace(ready, renewal_of=""), gone, None):
        assert renewal.ended_with(kept, NOW) == []


@given(st.sampled_from(LIVE), st.sampled_from(LIVE), st.booleans(), st.integers(-10, 4_000), st.integers(-10, 8_000))
def test_a_successor_with_a_job_and_a_pool_that_ends_are_left_alone(
    state: ClusterState, of_successor: ClusterState, has_job: bool, left: int, kept: int
) -> None:
    pool = a_pool(left=left, kept=kept, state=state, renewed_by="new")
    successor = a_successor(pool, state=of_successor, job="j" if has_job else "")
    found = step(pool, successor)
    assert found is not RenewalStep.REQUEST
    if has_job or state is ClusterState.RELEASING:
        assert found is RenewalStep.NOTHING
    if found is RenewalStep.HAND_OVER:
        assert state is of_successor is ClusterState.AVAILABLE


@given(st.integers(-100, 100))
def test_a_successor_that_waits_is_wanted_until_the_keep_alive_is_over(seconds: int) -> None:
    waits = a_successor(a_pool(), waiting=QueueStatus("Priority"), expires_at=NOW + seconds)
    assert launch.is_unwanted(waits, None, NOW) == (seconds <= 0)
    assert not launch.is_unwanted(replace(waits, waiting=None), None, NOW)


def test_a_ready_successor_is_a_pool_and_one_that_a_job_joined_is_its_cluster() -> None:
    pool = a_pool()
    ready = transitions.mark_ready(a_successor(pool), NOW + 5)
    assert (ready.state, ready.available_since, ready.expires_at) == (
        ClusterState.AVAILABLE,
        NOW + 5,
        pool.expires_at,
    )
    joined = transitions.join_launch(a_successor(pool), "j", NOW)
    assert (joined.state, joined.job, joined.lease, joined.expires_at) == (ClusterState.PROVISIONING, "j", 1, None)
    assert joined.keep_alive == 900
    assert transitions.mark_ready(joined, NOW).state is ClusterState.IN_USE


def test_a_job_joins_an_equal_successor_that_has_no_job() -> None:
    pool = a_pool()
    waits = a_successor(pool)
    assert reuse.coming_pool(pool.key, [pool, waits], NOW) == waits
    assert reuse.coming_pool(pool.key, [replace(waits, job="j")], NOW) is None
    assert reuse.coming_pool(pool.key, [replace(waits, renewal_of="")], NOW) is None
    assert reuse.coming_pool(pool.key, [replace(waits, expires_at=NOW)], NOW) is None
    assert reuse.coming_pool(replace(pool.key, role="other"), [waits], NOW) is None


SECONDS = st.one_of(st.none(), st.integers(0, 10_000))


@given(SECONDS, SECONDS, st.integers(1, 20_000))
def test_a_job_joins_unless_an_allocation_of_its_own_gives_it_more_time(
    max_run: int | None, longest: int | None, wanted: int
) -> None:
    pool = a_pool()
    plan = Renewal(at=NOW, seconds=3_600.0, max_run=max_run, longest_run=longest)
    waits = a_successor(replace(pool, handle=replace(pool.handle, renewal=plan) if pool.handle else None))
    world = PlacementSnapshot(clusters=(replace(pool, state=ClusterState.IN_USE, job="j"), waits), bounded=False)
    found = place(a_spec(max_run=wanted), pool.key, world, Limits(), NOW)
    own = wanted if longest is None else min(wanted, longest)
    if max_run is None or own <= max_run:
        assert isinstance(found, Join)
        assert found.cluster == waits
    else:
        assert isinstance(found, Launch)
        assert found.why.sentence.startswith(f"Cold: pool {waits.name()} has time for a job ")
        assert found.why.sentence.endswith("(--max-run).")
        assert found.outlived == ()


def test_why_says_how_much_time_an_allocation_that_waits_has() -> None:
    plan = Renewal(at=NOW, seconds=3_600.0, max_run=3_420.0)
    waits = a_successor(a_pool(), renewal=plan)
    world = PlacementSnapshot(clusters=(waits,), bounded=False)
    found = place(a_spec(max_run=7_200), waits.key, world, Limits(), NOW)
    name = waits.name()
    assert found.why.sentence == f"Cold: pool {name} has time for a job 57 min, this job needs 2 h (--max-run)."


def test_a_pool_can_be_extended_up_to_the_end_of_the_next_allocation() -> None:
    pool = a_pool(left=300.0)
    keep_alive.check_allocation(pool, 3_900, NOW)
    with pytest.raises(ResourceLimitError, match="that are left"):
        keep_alive.check_allocation(pool, 3_901, NOW)
    assert keep_alive.decide_after_job(pool, 900, [], Limits(), NOW).seconds == 900


def test_a_pool_whose_successor_was_refused_or_released_is_not_renewed() -> None:
    pool = a_pool(renewed_by="new")
    ended = a_successor(pool, state=ClusterState.TERMINATED)
    (refused,) = renewal.not_renewed(pool, ended, "Slurm refused the job.")
    assert refused.reason == "Its allocation is not renewed: Slurm refused the job."
    (released,) = renewal.not_renewed(pool, ended)
    assert released.reason == pool.reason
    for each in (refused, released):
        assert step(replace(each, renewed_by="")) is RenewalStep.NOTHING
        keep_alive.check_allocation(each, 300, NOW)
        with pytest.raises(ResourceLimitError, match="that are left"):
            keep_alive.check_allocation(each, 301, NOW)
    for other in (replace(pool, state=ClusterState.RELEASING), replace(pool, renewed_by="other"), None):
        assert renewal.not_renewed(other, ended) == []


def test_another_successor_may_be_requested_a_minute_after_the_end_of_one() -> None:
    live = a_successor(a_pool())
    ended = transitions.mark_terminated(live, "", NOW)
    assert not renewal.may_repeat(live, NOW + 1_000)
    assert not renewal.may_repeat(ended, NOW + renewal.RETRY - 1)
    assert renewal.may_repeat(ended, NOW + renewal.RETRY)
    assert renewal.may_repeat(None, NOW)
