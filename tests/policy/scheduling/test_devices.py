"""Which GPUs a job gets: two jobs never the same one while there are enough."""

from __future__ import annotations

from draws import a_key
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType
from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling import capacity
from jupyter_smx.policy.scheduling.capacity import assign_gpus

CATALOGUE = {f"gpu{n}": InstanceType(name=f"gpu{n}", vcpus=1, memory_gib=1.0, gpus=n) for n in range(9)}


def limits(gpus: int) -> Limits:
    return Limits(max_hosts=100, cpus=64, memory_gib=64.0, gpus=gpus, catalogue=CATALOGUE)


def groups(kind: str, count: int = 1) -> tuple[InstanceGroup, ...]:
    return (InstanceGroup(instance_type=kind, instance_count=count),)


def cluster(kind: str, *numbers: int, state: ClusterState = ClusterState.IN_USE) -> Cluster:
    return Cluster(
        id="c",
        key=a_key(instance_groups=groups(kind)),
        state=state,
        gpus={"algo-1": numbers},
    )


def test_a_job_gets_the_lowest_that_nobody_holds() -> None:
    busy = [cluster("gpu1", 0), cluster("gpu1", 2, state=ClusterState.PROVISIONING)]
    assert assign_gpus(groups("gpu1"), busy, limits(4)) == {"algo-1": (1,)}
    assert assign_gpus(groups("gpu2"), busy, limits(4)) == {"algo-1": (1, 3)}


def test_hosts_of_one_job_get_different_ones() -> None:
    assert assign_gpus(groups("gpu2", 2), [], limits(4)) == {"algo-1": (0, 1), "algo-2": (2, 3)}


def test_an_idle_pool_and_one_that_ends_hold_none() -> None:
    idle = [cluster("gpu1", 0, state=state) for state in (ClusterState.AVAILABLE, ClusterState.TERMINATED)]
    assert assign_gpus(groups("gpu1"), idle, limits(2)) == {"algo-1": (0,)}


def test_a_type_without_gpus_is_given_none_and_hidden_none() -> None:
    assert assign_gpus(groups("gpu0", 2), [], limits(4)) == {}
    assert assign_gpus(groups("gpu8"), [], limits(0)) == {}


def test_a_type_that_has_more_than_the_machine_gets_all_and_hosts_share_what_there_is() -> None:
    assert assign_gpus(groups("gpu8"), [], limits(2)) == {"algo-1": (0, 1)}
    assert assign_gpus(groups("gpu2", 2), [], limits(3)) == {"algo-1": (0, 1), "algo-2": (0, 2)}


@given(st.integers(1, 8), st.lists(st.tuples(st.sampled_from(sorted(CATALOGUE)), st.integers(1, 3)), max_size=8))
def test_no_two_jobs_that_have_room_hold_the_same(gpus: int, wishes: list[tuple[str, int]]) -> None:
    here = limits(gpus)
    running: list[Cluster] = []
    for kind, count in wishes:
        wish = groups(kind, count)
        if capacity.shortage(capacity.demand(wish, here), capacity.used_share(running, here), here):
            continue
        given_now = assign_gpus(wish, running, here)
        key = replace(cluster(kind).key, instance_groups=wish)
        running.append(Cluster(id=str(len(running)), key=key, state=ClusterState.IN_USE, gpus=given_now))
        assert all(0 <= number < gpus for row in given_now.values() for number in row)
    held = [{number for row in one.gpus.values() for number in row} for one in running]
    assert sum(map(len, held)) == len(set().union(*held)), "each device is one job's"
    assert capacity.used_share(running, here).gpus == sum(map(len, held)), "as many as are counted"


def test_hosts_that_keep_theirs_get_those_of_idle_hosts_last() -> None:
    idle = cluster("gpu1", 0, state=ClusterState.AVAILABLE)
    assert assign_gpus(groups("gpu1"), [idle], limits(2), lasting=True) == {"algo-1": (1,)}
    assert assign_gpus(groups("gpu2"), [idle], limits(2), lasting=True) == {"algo-1": (0, 1)}
    assert assign_gpus(groups("gpu1"), [idle, cluster("gpu1", 1)], limits(2), lasting=True) == {"algo-1": (0,)}
    assert assign_gpus(groups("gpu1"), [idle], limits(2)) == {"algo-1": (0,)}, "others need not care"
