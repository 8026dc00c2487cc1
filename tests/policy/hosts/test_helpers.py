"""Groups that help another one: when they are told to end, and which of their ends are no failures."""

from __future__ import annotations

import pytest
from draws import LIMITS, a_cluster, a_job, a_spec, an_end, ends
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.records.job import HostEnd, failing_host
from jupyter_smx.model.spec.instance import InstanceGroup, check_helpers
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.hosts.names import drainable_hosts, leaders_of, mark_drained_helpers, named_hosts
from jupyter_smx.policy.lifecycle.next_step import JobObservation, JobStep, next_job_step
from jupyter_smx.policy.lifecycle.outcome import job_outcome
from jupyter_smx.policy.scheduling import placement, reuse

DNN = InstanceGroup(name="dnn", instance_count=2)
DATA = InstanceGroup(name="data", instance_count=2, until="dnn")
GROUPS = (DATA, DNN)  # data has algo-1 and algo-2, dnn has algo-3 and algo-4


@st.composite
def jobs(draw: st.DrawFn) -> tuple[tuple[InstanceGroup, ...], frozenset[str]]:
    """Draw lawful groups, and the hosts that have ended."""
    count = draw(st.integers(min_value=1, max_value=5))
    leaders = draw(st.integers(min_value=1, max_value=count))
    groups = [
        InstanceGroup(
            name=f"g{number}",
            instance_count=draw(st.integers(min_value=1, max_value=3)),
            until="" if number < leaders else f"g{draw(st.integers(min_value=0, max_value=leaders - 1))}",
        )
        for number in range(count)
    ]
    mixed = tuple(draw(st.permutations(groups)))
    names = [host.name for host in named_hosts(mixed)]
    return mixed, frozenset(draw(st.sets(st.sampled_from(names))))


@given(jobs())
def test_those_are_told_whose_leaders_have_all_ended_and_nobody_else(
    job: tuple[tuple[InstanceGroup, ...], frozenset[str]],
) -> None:
    groups, exited = job
    check_helpers(groups)
    told = drainable_hosts(groups, exited)
    until = {group.name: group.until for group in groups}
    for host in named_hosts(groups):
        leaders = {other.name for other in named_hosts(groups) if other.group == until[host.group]}
        assert (host.name in told) == (bool(leaders) and leaders <= exited and host.name not in exited)


@given(jobs())
def test_when_everybody_else_has_ended_and_the_told_do_the_job_is_over(
    job: tuple[tuple[InstanceGroup, ...], frozenset[str]],
) -> None:
    groups, exited = job
    helpers = set(leaders_of(groups))
    rest = {host.name for host in named_hosts(groups)} - helpers
    assert rest, "a job without a leader would never end"
    told = drainable_hosts(groups, exited | rest)
    assert exited | rest | set(told) == {host.name for host in named_hosts(groups)}


def test_a_helper_waits_for_the_last_host_of_its_leader() -> None:
    assert drainable_hosts(GROUPS, {"algo-3"}) == ()
    assert drainable_hosts(GROUPS, {"algo-3", "algo-4"}) == ("algo-1", "algo-2")
    assert drainable_hosts(GROUPS, {"algo-1", "algo-3", "algo-4"}) == ("algo-2",)


def ended(host: str, at: float | None, **fields: object) -> HostEnd:
    return an_end(host=host, exited_at=at, **fields)


LEADERS = (ended("algo-3", 10.0), ended("algo-4", 12.0))


@pytest.mark.parametrize(
    ("helper", "state"),
    [
        (ended("algo-1", 12.5, cause="drained", exit_code=None, signal=15), SecondaryStatus.COMPLETED),
        (ended("algo-1", 12.5, cause="drained", exit_code=None, signal=9), SecondaryStatus.COMPLETED),
        (ended("algo-1", 5.0), SecondaryStatus.COMPLETED),
        (ended("algo-1", 12.0, exit_code=1), SecondaryStatus.COMPLETED),
        (ended("algo-1", 11.9, exit_code=1), SecondaryStatus.FAILED),
        (ended("algo-1", 11.0, cause="signal", exit_code=None, signal=11), SecondaryStatus.FAILED),
        (ended("algo-1", None, cause="refused", exit_code=None, failure="host: no room"), SecondaryStatus.FAILED),
        (ended("algo-1", 13.0, cause="host", exit_code=None), SecondaryStatus.FAILED),
    ],
)
def test_how_a_helper_may_end(helper: HostEnd, state: SecondaryStatus) -> None:
    other = ended("algo-2", 20.0, cause="drained", exit_code=0)
    assert job_outcome(DesiredState.RUN, mark_drained_helpers(GROUPS, (helper, other, *LEADERS))).state is state


def test_helpers_that_were_drained_take_no_blame_from_a_leader_that_failed() -> None:
    failed = ended("algo-3", 10.0, exit_code=3)
    found = (ended("algo-1", 13.0, cause="drained", exit_code=1), failed, LEADERS[1])
    assert failing_host(mark_drained_helpers(GROUPS, found)) is failed
    assert job_outcome(DesiredState.RUN, mark_drained_helpers(GROUPS, found)).reason == "AlgorithmError: Exit Code: 3"


@given(st.lists(ends, max_size=4), st.lists(st.floats(min_value=0, max_value=9), min_size=4, max_size=4))
def test_nobody_is_excused_who_helps_nobody(found: list[HostEnd], moments: list[float]) -> None:
    told = [
        replace(end, host=f"algo-{number}", exited_at=moment)
        for number, (end, moment) in enumerate(zip(found, moments, strict=False), 1)
    ]
    plain = tuple(replace(group, until="") for group in GROUPS)
    assert mark_drained_helpers(plain, told) == tuple(told)
    assert mark_drained_helpers(GROUPS, told)[2:] == tuple(told[2:])


def test_of_equal_ends_the_first_one_is_to_blame() -> None:
    late, early = ended("algo-1", 12.0, exit_code=1), ended("algo-2", 11.0, exit_code=1)
    assert failing_host((late, early)) is early


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ({"data": "dn"}, r"until=dn is not a group of this job\. .* Did you mean dnn\?"),
        ({"data": "data"}, r"until=data is the group itself\."),
        ({"data": "dnn", "dnn": "data"}, r"is a cycle"),
        ({"data": "dnn", "more": "data"}, r"--group more: until=data is itself a helper of dnn"),
    ],
)
def test_helpers_that_cannot_be_are_refused_with_the_rule(until: dict[str, str], said: str) -> None:
    groups = tuple(InstanceGroup(name=name, until=until.get(name, "")) for name in ("data", "dnn", "more"))
    with pytest.raises(ValidationError, match=said) as refusal:
        checks.check(a_spec(instance_groups=groups), LIMITS, ("local",))
    assert "until= names the group that this group helps" in str(refusal.value)


RUNNING = JobObservation(hosts=4, connected=True, dispatched=True, hosts_to_drain=1)


def test_helpers_are_told_once_and_not_where_all_are_told_to_stop() -> None:
    job, cluster = a_job(cluster="c1"), a_cluster(state=ClusterState.IN_USE)
    assert next_job_step(job, cluster, RUNNING) is JobStep.DRAIN
    assert next_job_step(job, cluster, replace(RUNNING, hosts_to_drain=0)) is JobStep.NOTHING
    assert next_job_step(replace(job, goal=DesiredState.STOP), cluster, RUNNING) is JobStep.SEND_STOP
    assert next_job_step(job, cluster, replace(RUNNING, failed=True)) is JobStep.SEND_STOP
    assert next_job_step(job, cluster, replace(RUNNING, failed=True, stop_sent=True)) is JobStep.NOTHING


def test_a_pool_does_not_care_who_helps_whom_and_the_user_is_told() -> None:
    spec = a_spec(instance_groups=GROUPS)
    plain = a_spec(instance_groups=tuple(replace(group, until="") for group in GROUPS))
    key = reuse.reuse_key(spec, "me")
    assert key == reuse.reuse_key(plain, "me")
    decision = placement.place(spec, key, placement.PlacementSnapshot(), LIMITS, 0.0)
    assert "Group data helps dnn: it is stopped when the hosts of dnn have ended." in decision.why.notes
