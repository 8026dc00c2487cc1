"""Where a job goes: never over capacity, oldest first, evict only when it helps, always with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from draws import KINDS, LIMITS, NOW, a_cluster, a_host, a_job, a_key, a_spec, clusters
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.lifecycle import transitions
from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling import capacity, placement, reuse

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec

specs = st.builds(
    lambda kind, count, imports: a_spec(
        instance_groups=(InstanceGroup(instance_type=kind, instance_count=count),), imports=imports
    ),
    st.sampled_from(KINDS),
    st.integers(min_value=1, max_value=4),
    st.sampled_from([(), ("numpy",)]),
)


def place(spec: JobSpec, world: placement.PlacementSnapshot, limits: Limits = LIMITS) -> placement.Placement:
    return placement.place(spec, reuse.reuse_key(spec, "me"), world, limits, NOW)


def world_of(*found: Cluster, **fields: int | bool) -> placement.PlacementSnapshot:
    return placement.PlacementSnapshot(clusters=found, reachable=frozenset(c.id for c in found), **fields)  # type: ignore[arg-type]


def hosts(found: list[Cluster]) -> int:
    return sum(g.instance_count for c in found if c.is_live() for g in c.key.instance_groups)


def assert_within(found: list[Cluster], limits: Limits) -> None:
    used = capacity.used_share(found, limits)
    assert hosts(found) == used.hosts <= limits.max_hosts
    assert used.cpus <= limits.cpus
    assert used.memory_gib <= limits.memory_gib + 1e-6
    assert used.gpus <= limits.gpus


@given(st.lists(st.tuples(specs, st.sampled_from(["keep", "end", "go on"]), st.integers(0, 9)), max_size=25))
def test_no_sequence_of_jobs_exceeds_the_capacity(story: list[tuple[JobSpec, str, int]]) -> None:
    found: list[Cluster] = []
    for number, (spec, what, which) in enumerate(story):
        decision = place(spec, world_of(*found))
        if isinstance(decision, placement.Launch):
            fresh = Cluster(id=f"n{number}", key=reuse.reuse_key(spec, "me"), created_at=NOW)
            found.append(transitions.lease_pool(fresh, "job", NOW))
        elif isinstance(decision, placement.Reuse):
            found = [transitions.lease_pool(c, "job", NOW) if c == decision.cluster else c for c in found]
        else:
            found = [transitions.mark_terminated(c, "evicted", NOW) if c.id in decision.evict else c for c in found]
        assert_within(found, LIMITS)
        busy = [c for c in found if c.state is ClusterState.IN_USE]
        if busy and what != "go on":
            ending = busy[which % len(busy)]
            keep = KeepDecision(600 if what == "keep" else 0, "")
            found = [transitions.detach_job(c, "job", keep, NOW) if c == ending else c for c in found]
            found = [transitions.mark_terminated(c, "", NOW) if c.state is ClusterState.RELEASING else c for c in found]


@given(specs, clusters(), st.integers(0, 2), st.booleans())
def test_every_decision_has_a_sentence_and_the_right_word(
    spec: JobSpec, found: tuple[Cluster, ...], ahead: int, bounded: bool
) -> None:
    decision = place(spec, world_of(*found, ahead=ahead, bounded=bounded))
    assert decision.why.sentence.endswith(".")
    expected = {placement.Reuse: "warm", placement.Launch: "cold", placement.Wait: "queued"}[type(decision)]
    assert decision.why.start == expected
    if expected == "queued":
        assert f"position {ahead + 1}." in decision.why.sentence
    if expected == "cold" and any(c.is_live() and c.state is not ClusterState.RELEASING for c in found):
        assert decision.why.differences, "there was a pool, so the answer says what was wrong with it"


@given(specs, clusters(), st.integers(0, 6))
def test_an_engine_never_has_more_hosts_than_its_slots_and_its_own_pools_make_room(
    spec: JobSpec, found: tuple[Cluster, ...], slots: int
) -> None:
    others = tuple(replace(each, id=f"other {each.id}") for each in found)
    decision = place(spec, world_of(*found, slots=slots, bounded=False, others=others))
    if isinstance(decision, placement.Launch):
        assert hosts([*found]) + spec.instance_count() <= slots
    if isinstance(decision, placement.Wait):
        assert hosts([*found]) + spec.instance_count() > slots
        assert f"of the {slots} of the engine" in decision.why.sentence
        kept = [each for each in found if each.id not in decision.evict and each.state is not ClusterState.RELEASING]
        if decision.evict:
            assert hosts(kept) + spec.instance_count() <= slots
            assert all(each.state is ClusterState.AVAILABLE for each in found if each.id in decision.evict)


@given(specs, clusters(), st.integers(1, 5))
def test_nobody_overtakes_an_older_job(spec: JobSpec, found: tuple[Cluster, ...], ahead: int) -> None:
    decision = place(spec, world_of(*found, ahead=ahead))
    assert isinstance(decision, placement.Wait)
    assert not decision.evict


@given(specs, clusters())
def test_pools_are_ended_only_when_that_makes_room_and_never_one_too_many(
    spec: JobSpec, found: tuple[Cluster, ...]
) -> None:
    decision = place(spec, world_of(*found))
    if not isinstance(decision, placement.Wait) or not decision.evict:
        return
    chosen = [c for c in found if c.id in decision.evict]
    assert all(c.state is ClusterState.AVAILABLE for c in chosen)
    leaving = [c for c in found if c.state is ClusterState.RELEASING]

    def room_without(gone: list[Cluster]) -> bool:
        return hosts([c for c in found if c not in gone]) + spec.instance_count() <= LIMITS.max_hosts

    assert room_without([*chosen, *leaving])
    for one in chosen:
        assert not room_without([*leaving, *(c for c in chosen if c != one)]), "one pool too many was ended"


@given(specs, clusters())
def test_evicting_leads_to_a_launch_and_looking_twice_ends_no_second_pool(
    spec: JobSpec, found: tuple[Cluster, ...]
) -> None:
    decision = place(spec, world_of(*found))
    if not isinstance(decision, placement.Wait) or not decision.evict:
        return
    leaving = [transitions.release(c, "", NOW) if c.id in decision.evict else c for c in found]
    again = place(spec, world_of(*leaving))
    assert isinstance(again, placement.Wait)
    assert not again.evict
    gone = [transitions.mark_terminated(c, "", NOW) if c.state is ClusterState.RELEASING else c for c in leaving]
    assert isinstance(place(spec, world_of(*gone)), placement.Launch)


def test_pools_that_leave_already_spare_the_others() -> None:
    leaving, idle = a_cluster("c1", state=ClusterState.RELEASING), a_cluster("c2", key=a_key(role="other"))
    decision = place(a_spec(), world_of(leaving, idle), replace(LIMITS, max_hosts=2))
    assert isinstance(decision, placement.Wait)
    assert decision.evict == ()


def test_no_pool_is_ended_in_vain() -> None:
    busy, idle = a_cluster("busy", state=ClusterState.IN_USE), a_cluster("idle", key=a_key(role="other"))
    spec = a_spec(instance_groups=(InstanceGroup(instance_count=3),))
    decision = place(spec, world_of(busy, idle), replace(LIMITS, max_hosts=3))
    assert isinstance(decision, placement.Wait)
    assert decision.evict == ()


def test_where_hosts_are_missing_it_is_said_how_many_are_wanted_and_taken() -> None:
    busy = a_cluster("busy", state=ClusterState.IN_USE)
    limits = replace(LIMITS, max_hosts=3, cpus=99, memory_gib=999.0)
    decision = place(a_spec(instance_groups=(InstanceGroup(instance_count=3),)), world_of(busy), limits)
    assert decision.why.sentence.endswith("It needs 3 hosts, and 1 of the 3 of this machine are in use.")
    decision = place(a_spec(role="r"), world_of(busy), replace(limits, max_hosts=1))
    assert decision.why.sentence.endswith("It needs 1 host, and 1 of the 1 of this machine are in use.")


def test_the_pool_that_ends_soonest_makes_room() -> None:
    late = a_cluster("late", key=a_key(role="r"), expires_at=NOW + 500)
    soon = a_cluster("soon", key=a_key(role="r"), expires_at=NOW + 5)
    decision = place(a_spec(), world_of(late, soon), replace(LIMITS, max_hosts=2))
    assert isinstance(decision, placement.Wait)
    assert decision.evict == ("soon",)


def test_a_busy_machine_queues_and_says_what_is_busy() -> None:
    busy = a_cluster(state=ClusterState.IN_USE)
    decision = place(a_spec(), world_of(busy), replace(LIMITS, cpus=1, memory_gib=4.0))
    assert isinstance(decision, placement.Wait)
    assert "It needs 1 CPU, and 1 of 1 are in use." in decision.why.sentence
    assert "1 of 1 are in use" in decision.why.sentence


def test_a_busy_machine_of_ours_does_not_hold_back_hosts_that_are_elsewhere() -> None:
    busy = a_cluster(state=ClusterState.IN_USE)
    one = replace(LIMITS, cpus=1, max_hosts=1)
    assert isinstance(place(a_spec(), world_of(busy, bounded=False), one), placement.Launch)


def test_no_more_jobs_run_than_the_administrator_allows() -> None:
    limits = replace(LIMITS, max_jobs_running=2)
    assert isinstance(place(a_spec(), placement.PlacementSnapshot(running=1), limits), placement.Launch)
    decision = place(a_spec(), placement.PlacementSnapshot(running=2), limits)
    assert isinstance(decision, placement.Wait)
    assert "max_jobs_running" in decision.why.sentence


def test_a_warm_start_names_the_pool_and_the_job_before() -> None:
    pool = a_cluster(last_job="train-1")
    decision = place(a_spec(), world_of(pool))
    assert isinstance(decision, placement.Reuse)
    assert decision.why.reused_from == "train-1"
    assert decision.why.pool == pool.name()


def test_a_module_that_could_not_be_preloaded_is_named_with_its_reason() -> None:
    pool = a_cluster(hosts=(a_host(preloaded=("numpy",), preload_failures={"torch": "no such module."}),))
    decision = place(a_spec(imports=("numpy", "torch"), keep_alive=60), world_of(pool))
    assert decision.why.notes == ("Already imported: numpy.", "Not preloaded: torch, no such module.")
    silent = place(a_spec(imports=("numpy",), keep_alive=60), world_of(pool))
    assert silent.why.notes == ("Already imported: numpy.",)


def test_notes_of_the_submitter_are_in_the_reason_of_a_cold_and_of_a_warm_start() -> None:
    spec = a_spec(keep_alive=60, notes=("Image X: runs this Python.",))
    for world in (placement.PlacementSnapshot(), world_of(a_cluster())):
        assert place(spec, world).why.notes == spec.notes


def test_a_job_that_will_end_the_pool_is_told_so_before() -> None:
    ends = place(a_spec(keep_alive=0), world_of(a_cluster(keep_alive=600)))
    assert ends.why.notes == ("This job has --keep-alive 0, so the pool ends with it.",)
    handed_over = place(a_spec(), world_of(a_cluster(kept_for="an-array")))
    assert handed_over.why.notes == ("This job has no --keep-alive, so the pool ends with it.",)
    for none in (0, None):
        assert place(a_spec(keep_alive=none), placement.PlacementSnapshot()).why.notes == ()
    assert place(a_spec(keep_alive=60), world_of(a_cluster())).why.notes == ()


def test_a_job_whose_hosts_will_not_be_kept_for_want_of_quota_is_told_so_before() -> None:
    full = place(a_spec(keep_alive=60), placement.PlacementSnapshot(), replace(LIMITS, warm_pool_quota={"local": 0}))
    assert "quota" in full.why.notes[0]
    own = place(a_spec(keep_alive=60), world_of(a_cluster()), replace(LIMITS, warm_pool_quota={"local": 1}))
    assert own.why.notes == (), "the pool that it takes counts as its own"


def test_a_smaller_machine_says_so() -> None:
    spec = a_spec(instance_groups=(InstanceGroup(instance_type="ml.p3.8xlarge"),))
    notes = place(spec, placement.PlacementSnapshot()).why.notes
    assert notes == (
        "ml.p3.8xlarge has 32 vCPUs, but this machine provides 4.",
        "ml.p3.8xlarge has 4 GPUs, but this machine has 1.",
    )


def test_one_is_not_several() -> None:
    limits = replace(LIMITS, gpus=0)
    notes = place(
        a_spec(instance_groups=(InstanceGroup(instance_type="ml.p3.2xlarge"),)), placement.PlacementSnapshot(), limits
    )
    assert "ml.p3.2xlarge has 1 GPU, but this machine has 0." in notes.why.notes


@pytest.mark.parametrize("kind", KINDS)
def test_one_job_of_any_type_fits_on_an_empty_machine(kind: str) -> None:
    for limits in (LIMITS, Limits(cpus=1, memory_gib=0.5, max_hosts=1, gpus=0)):
        spec = a_spec(instance_groups=(InstanceGroup(instance_type=kind, instance_count=1),))
        assert isinstance(place(spec, placement.PlacementSnapshot(), limits), placement.Launch)


@given(clusters())
def test_an_idle_pool_takes_no_cpu_from_others(found: tuple[Cluster, ...]) -> None:
    idle = [c for c in found if c.state in {ClusterState.AVAILABLE, ClusterState.RELEASING}]
    used = capacity.used_share(idle, LIMITS)
    assert (used.cpus, used.memory_gib, used.gpus) == (0, 0, 0)
    assert used.hosts == hosts(idle)


def test_a_full_quota_is_said_before_the_job_and_not_after_it() -> None:
    limits = replace(LIMITS, warm_pool_quota={"local": 0})
    spec = a_spec(keep_alive=60)
    why = placement.place(spec, a_key(), placement.PlacementSnapshot(), limits, NOW).why
    assert any("will not be kept" in note and "quota for warm local instances is 0" in note for note in why.notes)


def test_a_job_without_keep_alive_says_before_that_the_pool_stays_as_it_was() -> None:
    notes = place(a_spec(), world_of(a_cluster(keep_alive=600))).why.notes
    assert notes == ("The pool's keep-alive of 10 min begins again after this job.",)
    full = place(a_spec(), world_of(a_cluster(keep_alive=600)), replace(LIMITS, warm_pool_quota={"local": 0}))
    assert "Its hosts will not be kept. The quota" in full.why.notes[-1]


def test_hosts_of_another_engine_on_this_machine_take_their_share_of_it() -> None:
    """A container and a process would each be given the whole machine, and the same GPU."""
    kind = (InstanceGroup(instance_type="ml.p3.2xlarge"),)
    other = a_cluster("d1", key=a_key(engine="ships", instance_groups=kind), state=ClusterState.IN_USE, job="j")
    other = replace(other, gpus={"algo-1": (0,)})
    wish = a_spec(instance_groups=kind)
    decision = place(wish, placement.PlacementSnapshot(others=(other,)))
    assert isinstance(decision, placement.Wait)
    assert "are in use" in decision.why.sentence
    two = replace(LIMITS, gpus=2, cpus=64, memory_gib=256.0)
    decision = place(wish, placement.PlacementSnapshot(others=(other,)), two)
    assert isinstance(decision, placement.Launch)
    assert decision.gpus == {"algo-1": (1,)}
    elsewhere = placement.PlacementSnapshot(others=(other,), bounded=False)
    assert isinstance(place(wish, elsewhere), placement.Launch)


def test_an_idle_pool_of_another_engine_makes_room_and_is_no_pool_that_was_passed_over() -> None:
    idle = a_cluster("d1", key=a_key(engine="ships"))
    full = replace(LIMITS, max_hosts=1)
    decision = place(a_spec(), placement.PlacementSnapshot(others=(idle,)), full)
    assert isinstance(decision, placement.Wait)
    assert decision.evict == ("d1",)
    assert place(a_spec(), placement.PlacementSnapshot(others=(idle,))).why.differences == ()


@pytest.mark.parametrize("state", [ClusterState.RELEASING, ClusterState.AVAILABLE])
def test_a_pool_of_its_own_engine_makes_room_before_one_of_another_that_may_be_away(state: ClusterState) -> None:
    elsewhere = replace(a_cluster("d1", key=a_key(engine="ships"), state=state), expires_at=NOW + 1)
    own = a_cluster("c1", key=a_key(role="other"))
    world = placement.PlacementSnapshot(clusters=(own,), others=(elsewhere,))
    decision = place(a_spec(), world, replace(LIMITS, max_hosts=2))
    assert isinstance(decision, placement.Wait)
    assert decision.evict == ("c1",)
    two = a_spec(instance_groups=(InstanceGroup(instance_count=2),))
    also = place(two, world, replace(LIMITS, max_hosts=2))
    assert isinstance(also, placement.Wait)
    assert also.evict == (("c1",) if state is ClusterState.RELEASING else ("c1", "d1"))


def test_a_job_that_lost_its_hosts_is_placed_once_more_and_its_reason_names_them() -> None:
    job = a_job(cluster="c1", lease=3, placements=1, why=Why(start="warm", sentence="", pool="train-c1"))
    job = transitions.advance(job, SecondaryStatus.STARTING, NOW)
    lost = placement.mark_hosts_lost(job, NOW + 7)
    assert (lost.cluster, lost.lease, lost.placements, lost.warm_pool) == ("", 0, 2, None)
    assert lost.why is not None
    assert any("the hosts of pool train-c1 after 7 s" in note for note in lost.why.notes)
    twice = placement.mark_hosts_lost(lost, NOW + 9, "Host algo-1: its container ended with exit code 1.")
    assert twice.why is not None
    assert len(twice.why.notes) > len(lost.why.notes), "what was lost before is still said"
    assert any(note.endswith(". Host algo-1: its container ended with exit code 1.") for note in twice.why.notes)


def test_equal_pools_of_another_version_are_ended_by_a_launch_and_other_pools_stay() -> None:
    old = a_cluster("old", hosts=(a_host(python_version="3.9.1"),))
    other = a_cluster("other", key=a_key(python="/other"), hosts=(a_host(python_version="3.9.1"),))
    decision = place(a_spec(python_version="3.11"), world_of(old, other))
    assert isinstance(decision, placement.Launch)
    assert decision.outlived == ("old",)
