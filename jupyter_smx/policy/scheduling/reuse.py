"""Decide which warm pool a job can use: the keys must be equal; else name the field that differs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState, ReuseKey
from jupyter_smx.model.results.reports import Difference
from jupyter_smx.model.spec.instance import HOMOGENEOUS
from jupyter_smx.model.spec.mount import format_mounts
from jupyter_smx.model.text import format_duration, format_options
from jupyter_smx.policy.lifecycle import renewal
from jupyter_smx.policy.lifecycle.environment import environment_diff, environment_of
from jupyter_smx.policy.scheduling.capacity import gpus_of_clusters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.model.spec.job_spec import JobSpec


TIME_FOR_A_JOB = "time for a job"
_TERMINAL_STATES = (ClusterState.RELEASING, ClusterState.TERMINATED)


def reuse_key(spec: JobSpec, user: str, image: Image | None = None, interpreter: str | None = None) -> ReuseKey:
    """Return the fields of a request in which a pool must be equal; ``until`` of helper groups is not among them.

    ``image`` is what the image that it names is now; ``interpreter`` what its engine resolved ``--python`` to, None
    where that names an interpreter of this machine.
    """
    return ReuseKey(
        engine=spec.engine,
        user=user,
        role=spec.role,
        instance_groups=tuple(replace(group, until="") for group in spec.instance_groups),
        python=spec.python if interpreter is None else interpreter,
        environment=environment_of(spec),
        image=image,
        network_isolation=spec.network_isolation,
        image_settings=spec.image_settings(),
        mounts=spec.mounts,
        shm_size=spec.shm_size,
        engine_options=spec.engine_options,
    )


def key_of_job(job: Job, user: str) -> ReuseKey:
    """Return the key of a job on record."""
    return reuse_key(job.spec, user, job.image, job.interpreter)


def _groups(groups: tuple[InstanceGroup, ...], *, one_each: bool) -> dict[str, str]:
    """Format the hosts: field by field if both sides have one group, else in one line."""
    if one_each:
        return {
            "group name": groups[0].name,
            "instance type": groups[0].instance_type,
            "instance count": str(groups[0].instance_count),
        }
    return {"instance groups": ", ".join(map(_group, groups))}


def _group(group: InstanceGroup) -> str:
    """Format a group as it was requested; a request of only a type and a number names no group."""
    if group.name == HOMOGENEOUS:
        return f"{group.instance_type} × {group.instance_count}"
    return f"{group.name}:{group.instance_type}:{group.instance_count}"


def _images(wanted: Image | None, found: Image | None) -> tuple[str, str]:
    """Return the names of two images, with ids if the names are equal; "" twice if the images are equal."""
    if wanted == found:
        return "", ""
    if wanted is None or found is None or wanted.name != found.name:
        return (wanted.name if wanted else "none"), (found.name if found else "none")
    return wanted.display_name(), found.display_name()


def _fields(key: ReuseKey, *, one_each: bool) -> dict[str, str]:
    return {
        "engine": key.engine,
        "user": key.user,
        "role": key.role,
        "python": key.python or "the default",
        "network isolation": "on" if key.network_isolation else "off",
        "image settings": " and ".join(key.image_settings) or "none",
        "mounts": format_mounts(key.mounts) or "none",
        "shm size": f"{key.shm_size} bytes" if key.shm_size else "the default",
        "engine options": format_options(key.engine_options) or "none",
        **_groups(key.instance_groups, one_each=one_each),
    }


def differences(wanted: ReuseKey, cluster: Cluster) -> tuple[Difference, ...]:
    """Name every field in which a cluster differs from the request; empty when the keys are equal."""
    if wanted == cluster.key:
        return ()
    one_each = len(wanted.instance_groups) == len(cluster.key.instance_groups) == 1
    mine, other = _fields(wanted, one_each=one_each), _fields(cluster.key, one_each=one_each)
    mine["environment"], other["environment"] = environment_diff(wanted.environment, cluster.key.environment)
    mine["image"], other["image"] = _images(wanted.image, cluster.key.image)
    return tuple(
        Difference(pool=cluster.name(), field=name, wanted=mine[name], found=other[name])
        for name in mine
        if mine[name] != other[name]
    )


def version_mismatch(cluster: Cluster, python_version: str, ours: str, *, foreign: bool) -> tuple[Difference, ...]:
    """Return the differences of hosts of other versions whose key is equal: both sides were updated in place.

    ``python_version`` is the submitter's, as ``3.11``; ``ours`` is the version that new agents have; ``foreign`` hosts
    speak another protocol, so that no job can be sent to them.
    """
    found: list[Difference] = []
    for host in cluster.hosts[:1]:
        theirs = ".".join(host.python_version.split(".")[:2])
        if python_version and theirs and theirs != python_version:
            found.append(_difference(cluster, "Python version", python_version, theirs))
        if foreign or (host.agent_version and ours and host.agent_version != ours):
            found.append(_difference(cluster, "jupyter-smx version", ours, host.agent_version or "another"))
    return tuple(found)


def gpus_in_use(pools: Iterable[Cluster], clusters: Iterable[Cluster]) -> dict[str, tuple[Difference, ...]]:
    """Name the idle pools, of hosts that see some GPUs only, one of whose GPUs a busy cluster was given since."""
    busy = gpus_of_clusters(cluster for cluster in clusters if cluster.is_busy())
    idle = [pool for pool in pools if pool.state is ClusterState.AVAILABLE]
    lent = {pool.id: (pool, gpus_of_clusters([pool]) & busy) for pool in idle}
    return {
        name: (_difference(pool, "GPUs", "free", f"{', '.join(map(str, sorted(gone)))} in use by another job"),)
        for name, (pool, gone) in lent.items()
        if gone
    }


def _difference(cluster: Cluster, field: str, wanted: str, found: str) -> Difference:
    return Difference(pool=cluster.name(), field=field, wanted=wanted, found=found)


def rejection_reasons(
    wanted: ReuseKey,
    clusters: Iterable[Cluster],
    reachable: Collection[str],
    of_other_times: Mapping[str, tuple[Difference, ...]] = MappingProxyType({}),
) -> tuple[Difference, ...]:
    """Return why no live cluster fits: fields of the key that differ, in use, not reachable, or about to expire."""
    found: list[Difference] = []
    for cluster in clusters:
        if cluster.state in _TERMINAL_STATES:
            continue
        unlike = differences(wanted, cluster) or of_other_times.get(cluster.id, ())
        if unlike:
            found.extend(unlike)
            continue
        state = cluster.state.value
        if cluster.state is ClusterState.AVAILABLE:
            state = "about to expire" if cluster.id in reachable else "not reachable"
        found.append(Difference(pool=cluster.name(), field="status", wanted="Available", found=state))
    return tuple(found)


def too_short(clusters: Iterable[Cluster], max_run: float) -> dict[str, tuple[Difference, ...]]:
    """Name the clusters that are launched to continue a pool, and whose allocation would end before the job."""
    return {
        each.id: (
            _difference(
                each,
                TIME_FOR_A_JOB,
                f"{format_duration(max_run)} (--max-run)",
                format_duration(each.renewal.max_run or 0.0),
            ),
        )
        for each in clusters
        if each.state is ClusterState.PROVISIONING
        and not each.job
        and each.renewal is not None
        and not renewal.has_time(each, max_run)
    }


def coming_pool(wanted: ReuseKey, clusters: Iterable[Cluster], now: float) -> Cluster | None:
    """Choose among the equal clusters that are launched without a job, to continue a pool, the one that came first."""
    coming = [
        cluster
        for cluster in clusters
        if cluster.state is ClusterState.PROVISIONING
        and cluster.renewal_of
        and not cluster.job
        and cluster.key == wanted
        and cluster.expires_at is not None
        and cluster.expires_at > now
    ]
    return min(coming, key=lambda cluster: cluster.created_at, default=None)


def best_pool(
    wanted: ReuseKey, clusters: Iterable[Cluster], reachable: Collection[str], imports: Collection[str], now: float
) -> Cluster | None:
    """Choose among the idle, reachable, equal pools the one that has most of the imports ready, then the last used."""
    fitting = [
        cluster
        for cluster in clusters
        if cluster.state is ClusterState.AVAILABLE
        and cluster.key == wanted
        and cluster.id in reachable
        and (cluster.expires_at is None or cluster.expires_at > now)
    ]

    def warmth(cluster: Cluster) -> tuple[int, float]:
        ready = set(cluster.hosts[0].preloaded) if cluster.hosts else set()
        return len(ready & set(imports)), cluster.available_since or 0.0

    return max(fitting, key=warmth, default=None)
