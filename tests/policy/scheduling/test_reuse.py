"""Which pool may be taken: every field of the key decides, and the answer names it (bug 13 of the catalogue)."""

from __future__ import annotations

from typing import Any

import pytest
from draws import NOW, a_cluster, a_host, a_key, a_spec, clusters, keys
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState, ReuseKey
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import PythonEnvironment
from jupyter_smx.model.spec.mount import Mount
from jupyter_smx.policy.scheduling import reuse

OTHER_GROUP = {"name": "others", "instance_type": "ml.m5.large", "instance_count": 2}
SAID = {"name": "group name", "instance_type": "instance type", "instance_count": "instance count"}


def mutations() -> list[tuple[str, ReuseKey]]:
    """Change each field of the key, and each field of its group, and say the word that must be in the answer."""
    key = a_key()
    special = {
        "instance_groups",
        "environment",
        "image",
        "network_isolation",
        "image_settings",
        "mounts",
        "shm_size",
        "engine_options",
    }
    plain = [field.name for field in fields(ReuseKey) if field.name not in special]
    rows = [(name, replace(key, **{name: "another"})) for name in plain]
    rows.append(("network isolation", replace(key, network_isolation=True)))
    rows.append(("image settings", replace(key, image_settings=("user",))))
    rows.append(("mounts", replace(key, mounts=(Mount(source="/data", target="/data"),))))
    rows.append(("shm size", replace(key, shm_size=1 << 30)))
    rows.append(("engine options", replace(key, engine_options={"partition": "gpu"})))
    rows.append(("environment", replace(key, environment=PythonEnvironment(requirements=("another",)))))
    rows.append(("image", replace(key, image=Image(name="train:1", id="sha256:11"))))
    group = key.instance_groups[0]
    changed = {SAID[name]: (replace(group, **{name: value}),) for name, value in OTHER_GROUP.items()}
    rows += [(said, replace(key, instance_groups=groups)) for said, groups in changed.items()]
    more = (*key.instance_groups, InstanceGroup(name="more"))
    rows.append(("instance groups", replace(key, instance_groups=more)))
    return rows


def test_the_mutations_below_touch_every_field_there_is() -> None:
    assert {*OTHER_GROUP, "until"} == {field.name for field in fields(InstanceGroup)}
    helper = (InstanceGroup(name="a"), InstanceGroup(name="b", until="a"))
    assert not any(group.until for group in reuse.reuse_key(a_spec(instance_groups=helper), "me").instance_groups)
    named = {name.replace(" ", "_") for name, _ in mutations()}
    assert named >= {f.name for f in fields(ReuseKey)}


@pytest.mark.parametrize(("named", "other"), mutations(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_pool_that_differs_in_any_one_field_is_not_taken_and_the_field_is_named(named: str, other: ReuseKey) -> None:
    pool = a_cluster(key=other)
    assert reuse.best_pool(a_key(), [pool], {pool.id}, (), NOW) is None
    said = reuse.rejection_reasons(a_key(), [pool], {pool.id})
    assert named in [difference.field for difference in said]
    assert all(difference.wanted != difference.found for difference in said)
    assert {difference.pool for difference in said} == {pool.name()}


def test_hosts_of_one_type_and_those_of_groups_differ_in_one_line_of_words_that_people_use() -> None:
    plain = a_key(instance_groups=(InstanceGroup(instance_type="ml.m5.large", instance_count=2),))
    groups = a_key(instance_groups=(InstanceGroup(name="data"), InstanceGroup(name="model", instance_count=3)))
    (said,) = reuse.differences(groups, a_cluster(key=plain))
    assert (said.field, said.found, said.wanted) == (
        "instance groups",
        "ml.m5.large × 2",
        "data:local:1, model:local:3",
    )


@given(keys, keys)
def test_two_keys_are_equal_or_a_difference_is_named(wanted: ReuseKey, other: ReuseKey) -> None:
    pool = a_cluster(key=other)
    taken = reuse.best_pool(wanted, [pool], {pool.id}, (), NOW)
    assert (taken is not None) == (wanted == other)
    assert bool(reuse.differences(wanted, pool)) == (wanted != other)


@given(keys, st.sampled_from(["engine", "user", "role", "python"]))
def test_a_key_that_was_changed_never_fits(key: ReuseKey, field: str) -> None:
    changed = replace(key, **{field: getattr(key, field) + "!"})
    pool = a_cluster(key=changed)
    assert reuse.best_pool(key, [pool], {pool.id}, (), NOW) is None
    assert [d.field for d in reuse.differences(key, pool)] == [field]


@pytest.mark.parametrize(
    "change",
    [
        {"source": "other code"},
        {"hyperparameters": {"lr": "1"}},
        {"environment": {"A": "1"}},
        {"base_name": "other"},
        {"max_run": 60},
        {"keep_alive": 60},
        {"imports": ("numpy",)},
        {"python_version": "3.12"},
        {"notebook": "other.ipynb"},
        {"receive": ("model",)},
        {"kind": "process"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_no_criterion_does_not_make_a_start_cold(change: dict[str, Any]) -> None:
    assert reuse.reuse_key(a_spec(**change), "me") == reuse.reuse_key(a_spec(), "me")


@pytest.mark.parametrize(
    "change",
    [{"engine": "ray"}, {"role": "r"}, {"python": "/other"}, {"instance_groups": (InstanceGroup(instance_count=2),)}],
    ids=lambda change: next(iter(change)),
)
def test_what_is_a_criterion_is_in_the_key(change: dict[str, Any]) -> None:
    assert reuse.reuse_key(a_spec(**change), "me") != reuse.reuse_key(a_spec(), "me")


ONE, NEWER = Image(name="train:1", id="sha256:11"), Image(name="train:1", id="sha256:12")


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [
        (ONE, Image(name="train:2", id="sha256:22"), ("train:1", "train:2")),
        (ONE, NEWER, ("train:1 (11)", "train:1 (12)")),
        (ONE, None, ("train:1", "none")),
        (Image(name="alias", id="sha256:11"), ONE, None),
    ],
    ids=["another name", "the name means another image now", "no image", "two names of one image"],
)
def test_a_pool_is_reused_by_what_its_image_is_and_not_by_what_it_is_called(
    wanted: Image, found: Image | None, words: tuple[str, str] | None
) -> None:
    said = reuse.differences(a_key(image=wanted), a_cluster(key=a_key(image=found)))
    assert [(each.field, each.wanted, each.found) for each in said] == ([("image", *words)] if words else [])


def test_another_user_has_another_key() -> None:
    assert reuse.reuse_key(a_spec(), "me") != reuse.reuse_key(a_spec(), "you")


@given(clusters(), st.sets(st.sampled_from(["c0", "c1", "c2", "c3", "c4"])))
def test_only_idle_reachable_unexpired_equal_pools_are_taken(found: tuple[Cluster, ...], reachable: set[str]) -> None:
    wanted = a_key()
    pool = reuse.best_pool(wanted, found, reachable, (), NOW)
    fitting = {
        c.id
        for c in found
        if c.key == wanted
        and c.state is ClusterState.AVAILABLE
        and c.id in reachable
        and (c.expires_at is None or c.expires_at > NOW)
    }
    assert (pool.id in fitting) if pool else not fitting


@given(clusters(), st.sets(st.sampled_from(["c0", "c1", "c2", "c3", "c4"])))
def test_a_cold_start_says_something_of_every_pool_that_was_there_and_not_ending(
    found: tuple[Cluster, ...], reachable: set[str]
) -> None:
    assume(reuse.best_pool(a_key(), found, reachable, (), NOW) is None)
    said = {difference.pool for difference in reuse.rejection_reasons(a_key(), found, reachable)}
    ending = (ClusterState.RELEASING, ClusterState.TERMINATED)
    assert said == {cluster.name() for cluster in found if cluster.state not in ending}


@pytest.mark.parametrize("left", [-1.0, 0.0])
def test_a_pool_whose_time_is_over_is_not_taken_and_says_so(left: float) -> None:
    late = a_cluster(expires_at=NOW + left)
    assert reuse.best_pool(a_key(), [late], {late.id}, (), NOW) is None
    assert [each.found for each in reuse.rejection_reasons(a_key(), [late], {late.id})] == ["about to expire"]


def test_among_equal_pools_the_one_with_the_imports_ready_is_taken() -> None:
    bare = a_cluster("bare", available_since=NOW)
    ready = a_cluster("ready", available_since=NOW - 100, hosts=(a_host(preloaded=("numpy", "sklearn")),))
    assert reuse.best_pool(a_key(), [bare, ready], {"bare", "ready"}, ["sklearn"], NOW) == ready


def test_among_equally_ready_pools_the_last_used_is_taken() -> None:
    old, new = a_cluster("old", available_since=NOW - 100), a_cluster("new", available_since=NOW - 1)
    assert reuse.best_pool(a_key(), [old, new], {"old", "new"}, [], NOW) == new
