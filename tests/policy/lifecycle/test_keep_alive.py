"""Keep-alive precedence: the job's wish, the cap, the quota, the end of the chain (bug 8 of the catalogue)."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from draws import NOW, a_cluster, a_job, a_key, a_spec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.errors import ResourceLimitError
from jupyter_smx.model.records.cluster import ClusterState, Handle
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.lifecycle import keep_alive, transitions
from jupyter_smx.policy.lifecycle.keep_alive import HAND_OVER, decide_after_task
from jupyter_smx.policy.limits import HARD_KEEP_ALIVE, Limits

CHAIN = 7_200
WISHES = (0, 1, 600, 3_600, 21_600)
QUOTAS: tuple[int | None, ...] = (None, 0, 1, 2)
AGES = (0.0, CHAIN - 10.0, CHAIN - 0.5, float(CHAIN), CHAIN + 100.0)


@pytest.mark.parametrize(("wish", "quota", "age"), list(itertools.product(WISHES, QUOTAS, AGES)))
def test_after_a_job_the_wish_rules_then_the_quota_then_the_age(wish: int, quota: int | None, age: float) -> None:
    limits = Limits(max_keep_alive_chain=CHAIN, warm_pool_quota={} if quota is None else {"local": quota})
    mine = a_cluster("mine", created_at=NOW - age, state=ClusterState.IN_USE)
    kept = keep_alive.decide_after_job(mine, wish, [a_cluster("other")], limits, NOW)
    expected = 0 if wish == 0 or quota in (0, 1) or CHAIN - age < 1 else min(wish, int(CHAIN - age))
    assert kept.seconds == expected
    assert expected or kept.reason, "hosts that are not kept are not kept for a reason"


@pytest.mark.parametrize(
    ("wish", "cap", "allowed"),
    [
        (0, 0, True),
        (1, 0, False),
        (3_600, 3_600, True),
        (3_601, 3_600, False),
        (HARD_KEEP_ALIVE, 10**9, True),
        (HARD_KEEP_ALIVE + 1, 10**9, False),
    ],
)
def test_a_wish_over_the_cap_is_refused_at_submission_and_names_the_cap(wish: int, cap: int, allowed: bool) -> None:
    limits = Limits(keep_alive_cap=cap)
    if allowed:
        keep_alive.check(wish, limits)
        return
    with pytest.raises(ResourceLimitError) as refusal:
        keep_alive.check(wish, limits)
    assert refusal.value.field == "keep_alive"
    assert refusal.value.value == str(wish)
    assert "keep_alive_cap" in refusal.value.rule
    assert str(min(cap, HARD_KEEP_ALIVE)) in refusal.value.cure


def test_a_lower_cap_does_not_shorten_what_was_admitted_before() -> None:
    kept = keep_alive.decide_after_job(a_cluster(), 3_600, [], Limits(keep_alive_cap=10), NOW)
    assert kept.seconds == 3_600


@pytest.mark.parametrize(("left", "kept"), [(None, 600), (0.5, 0), (30.0, 30), (900.0, 600)])
def test_hosts_are_kept_no_longer_than_their_allocation_lasts(left: float | None, kept: int) -> None:
    handle = Handle(engine="slurm", cluster="c", allocation_ends_at=None if left is None else NOW + left)
    decision = keep_alive.decide_after_job(a_cluster(handle=handle), 600, [], Limits(), NOW)
    assert decision.seconds == kept
    assert kept or decision.reason


@pytest.mark.parametrize(("seconds", "allowed"), [(60, True), (90, True), (91, False)])
def test_an_extension_beyond_the_allocation_is_refused_with_the_time_that_is_left(seconds: int, allowed: bool) -> None:
    pool = a_cluster(handle=Handle(engine="slurm", cluster="c", allocation_ends_at=NOW + 90.0))
    if allowed:
        keep_alive.check_allocation(pool, seconds, NOW)
        return
    with pytest.raises(ResourceLimitError) as refusal:
        keep_alive.check_allocation(pool, seconds, NOW)
    assert "90 seconds or less" in refusal.value.cure
    assert "1 min 30 s" in refusal.value.message


@pytest.mark.parametrize(("job", "after"), [(None, 3_600), (0, 0), (60, 60)])
def test_keep_alive_after_a_job_is_its_own_or_if_it_names_none_that_of_the_pool(job: int | None, after: int) -> None:
    assert keep_alive.keep_alive_after(job, a_cluster(keep_alive=3_600)) == after
    assert keep_alive.keep_alive_after(job, a_cluster(expires_at=None)) == (job or 0)
    assert keep_alive.keep_alive_after(job, None) == (job or 0)


def test_pool_keep_alive_of_a_record_of_an_earlier_version_is_the_time_that_it_is_idle() -> None:
    idle = {"available_since": NOW, "expires_at": NOW + 600.2}
    assert keep_alive.pool_keep_alive(a_cluster(**idle)) == 600
    assert keep_alive.pool_keep_alive(a_cluster(**idle, kept_for="an-array")) == 0
    assert keep_alive.pool_keep_alive(a_cluster(**idle, keep_alive=0)) == 0
    leased = transitions.lease_pool(a_cluster(**idle), "job", NOW + 5)
    assert keep_alive.pool_keep_alive(leased) == 600, "the lease removes the moments, and the keep-alive stays"


def test_a_spec_of_an_earlier_version_with_0_reads_as_0() -> None:
    old = msgspec.to_builtins(a_spec()) | {"keep_alive": 0}
    assert msgspec.convert(old, JobSpec).keep_alive == 0


def test_only_idle_pools_count_in_the_quota() -> None:
    limits = Limits(warm_pool_quota={"local": 1})
    busy = [a_cluster(state.value, state=state) for state in ClusterState if state is not ClusterState.AVAILABLE]
    assert keep_alive.warm_pool_quota_error((InstanceGroup(),), busy, limits) == ""
    assert "quota" in keep_alive.warm_pool_quota_error((InstanceGroup(),), [*busy, a_cluster()], limits)


def test_hosts_that_wait_for_the_next_task_of_an_array_do_not_count_in_the_quota() -> None:
    handed_over = a_cluster(kept_for="an-array")
    assert (
        keep_alive.warm_pool_quota_error((InstanceGroup(),), [handed_over], Limits(warm_pool_quota={"local": 1})) == ""
    )


def test_a_star_gives_the_quota_of_every_type_that_has_none_of_its_own() -> None:
    limits = Limits(warm_pool_quota={"*": 0, "local": 5})
    assert keep_alive.warm_pool_quota_error((InstanceGroup(),), [], limits) == ""
    said = keep_alive.warm_pool_quota_error((InstanceGroup(instance_type="ml.m5.large"),), [], limits)
    assert "ml.m5.large" in said
    assert "warm_pool_quota" in said


def test_two_groups_of_one_type_count_together() -> None:
    groups = (InstanceGroup(name="a", instance_count=2), InstanceGroup(name="b", instance_count=1))
    said = keep_alive.warm_pool_quota_error(groups, [], Limits(warm_pool_quota={"local": 2}))
    assert "is 2; 0 are in use and this needs 3." in said
    assert keep_alive.warm_pool_quota_error(groups, [], Limits(warm_pool_quota={"local": 3})) == ""


@given(st.lists(st.integers(min_value=1, max_value=3), max_size=12), st.integers(min_value=0, max_value=6))
def test_whatever_ends_in_which_order_no_more_are_kept_than_the_quota(sizes: list[int], quota: int) -> None:
    limits = Limits(warm_pool_quota={"local": quota})
    kept = []
    for number, size in enumerate(sizes):
        key = a_key(instance_groups=(InstanceGroup(instance_count=size),))
        ending = a_cluster(f"c{number}", key=key, state=ClusterState.IN_USE)
        if keep_alive.decide_after_job(ending, 600, kept, limits, NOW).seconds:
            kept.append(a_cluster(f"c{number}", key=key))
    assert sum(cluster.key.instance_groups[0].instance_count for cluster in kept) <= quota


@pytest.mark.parametrize(
    ("left", "wish", "others_wait", "kept"),
    [
        (CHAIN, 0, True, HAND_OVER),
        (10, 0, True, 10),
        (0, 0, True, 0),
        (-5, 0, True, 0),
        (CHAIN, 0, False, 0),
        (CHAIN, 600, True, 600),
    ],
)
def test_hosts_of_an_array_wait_for_its_next_task_and_no_longer_than_any_pool(
    left: int, wish: int, others_wait: bool, kept: int
) -> None:
    task = ArrayTask(id="b" * 12, name="train-bbbbbb", index=0, size=2)
    job = a_job(spec=a_spec(array=task, keep_alive=wish))
    assert decide_after_task(job, keep_alive.KeepDecision(wish), left, others_wait=others_wait).seconds == kept


def test_a_pool_that_is_extended_over_the_cap_is_told_of_its_duration_and_not_of_a_job() -> None:
    with pytest.raises(ResourceLimitError) as caught:
        keep_alive.check(7_200, Limits(keep_alive_cap=3_600), of_a_pool=True)
    assert str(caught.value).startswith("DURATION: 2 h is above the limit of 1 h.")
    assert caught.value.cure == "Use 3600 seconds or less, or extend it again later."
