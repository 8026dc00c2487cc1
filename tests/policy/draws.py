"""What random tests of policy draw: wishes, keys, clusters, limits."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from jupyter_smx.model.records.cluster import Cluster, ClusterState, Host, ReuseKey
from jupyter_smx.model.records.job import HostEnd, Job
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec, PythonEnvironment
from jupyter_smx.policy.limits import Limits

NOW = 1_000_000.0
HOUR = 3_600.0
KINDS = ("local", "ml.m5.large", "ml.m5.xlarge", "ml.p3.2xlarge")
LIMITS = Limits(max_hosts=4, cpus=4, memory_gib=16.0, gpus=1)


def a_spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"kind": "train", "source": "pass", "base_name": "train", "python": "/py"} | fields)


def a_key(**fields: Any) -> ReuseKey:
    made = {"engine": "local", "user": "me", "role": "", "instance_groups": (InstanceGroup(),), "python": "/py"}
    return ReuseKey(**made | fields)


def a_cluster(name: str = "c1", **fields: Any) -> Cluster:
    made: dict[str, Any] = {"id": name, "key": a_key(), "state": ClusterState.AVAILABLE, "created_at": NOW - HOUR}
    return Cluster(**made | {"available_since": NOW - 10, "expires_at": NOW + 600, "last_job": "old"} | fields)


def a_job(**fields: Any) -> Job:
    return Job(**{"id": "a" * 12, "name": "train-aaaaaa", "spec": a_spec()} | fields)


def a_host(**fields: Any) -> Host:
    return Host(**{"name": "algo-1", "group": "homogeneousCluster", "instance_type": "local"} | fields)


def an_end(**fields: Any) -> HostEnd:
    return HostEnd(**{"host": "algo-1", "cause": "exit", "exit_code": 0} | fields)


words = st.sampled_from(["a", "b", "c", "d"])
groups = st.builds(
    InstanceGroup,
    name=words,
    instance_type=st.sampled_from(KINDS),
    instance_count=st.integers(min_value=1, max_value=3),
)
group_tuples = st.lists(groups, min_size=1, max_size=3, unique_by=lambda group: group.name).map(tuple)
environments = st.builds(
    PythonEnvironment,
    requirements=st.lists(words, max_size=5).map(tuple),
    only=st.booleans(),
    python_version=st.sampled_from(["3.11", "3.12"]),
)
images = st.builds(Image, name=words, id=words)
keys = st.builds(
    ReuseKey,
    engine=words,
    user=words,
    role=words,
    instance_groups=group_tuples,
    python=words,
    environment=st.one_of(st.none(), environments),
    image=st.one_of(st.none(), images),
)
ends = st.builds(
    HostEnd,
    host=st.sampled_from(["algo-1", "algo-2", "algo-10"]),
    cause=st.sampled_from(
        ["exit", "signal", "stopped", "max_runtime", "max_wait", "interrupted", "memory", "refused", "host"]
    ),
    exit_code=st.one_of(st.none(), st.integers(min_value=0, max_value=255)),
    signal=st.one_of(st.none(), st.sampled_from([6, 9, 11, 15, 63])),
    failure=st.sampled_from(["", "it broke", "x" * 3_000]),
    reason=st.sampled_from(["", "it broke", "x" * 3_000]),
    message=st.sampled_from(["", "rows left out", None]),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, ...]:
    """Draw up to five clusters in any state, on hosts of few kinds, so that keys often meet."""
    made = []
    for number in range(draw(st.integers(min_value=0, max_value=5))):
        kind = draw(st.sampled_from(("local", "local", *KINDS)))
        count = draw(st.sampled_from([1, 1, 1, 2, 3]))
        made.append(
            a_cluster(
                f"c{number}",
                key=a_key(instance_groups=(InstanceGroup(instance_type=kind, instance_count=count),)),
                state=draw(st.sampled_from([ClusterState.AVAILABLE] * 3 + list(ClusterState))),
                expires_at=draw(st.one_of(st.none(), st.floats(min_value=NOW - 100, max_value=NOW + 100))),
                available_since=draw(st.one_of(st.none(), st.floats(min_value=NOW - 100, max_value=NOW))),
                hosts=draw(st.sampled_from([(), (a_host(),), (a_host(preloaded=("numpy",)),)])),
            )
        )
    return tuple(made)
