"""What hosts are brought that see nothing of this machine: all of it, only of it, and no path of ours in their spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from draws import a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.contract import distribution, scriptmode
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.controller.scheduling.run_request import run_spec
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Payload
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.policy.admission import host_visibility
from jupyter_smx.policy.admission.host_visibility import LocalSource
from jupyter_smx.policy.hosts.names import named_hosts

OURS = "/ours"
SWITCH = "sagemaker_mpi_enabled"
paths = st.lists(st.sampled_from("abc/'\"\n ü"), min_size=1, max_size=6).map(lambda parts: f"{OURS}/{''.join(parts)}")
urls = st.sampled_from(["s3://bucket/a", "https://example.org/x", "zip://a::s3://bucket/b.zip"])
names = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


def payload(path: str) -> Payload:
    return Payload(path=path, sha256="0", sizes={"x": 1})


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Any, tuple[LocalSource, ...]]:
    """Draw a wish, and what its local sources are: folders, manifests, and what patterns stand for."""
    channels, here = [], []
    for name in draw(names):
        source = draw(st.one_of(paths, urls))
        channels.append(Channel(name=name, source=source))
        if source.startswith("/"):
            found = draw(
                st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("xyz"), paths), max_size=3).map(tuple))
            )
            here.append(LocalSource(channel=name, source=source, entries=found))
    packed = {name: payload(path) for name in ("send", "shared") if (path := draw(st.one_of(st.none(), paths)))}
    if path := draw(st.one_of(st.none(), paths)):
        packed["source_dir"] = SourceDir(folder="/home/me/src", path=path, sha256="0", files=1, size=1)
    return a_spec(channels=tuple(channels), **packed), tuple(here)


@pytest.mark.parametrize(("image", "required"), [("train:1", ["numpy<2"]), ("", [])])
def test_a_host_of_an_image_is_told_of_it_and_installs_what_is_required_itself(image: str, required: list[str]) -> None:
    spec = a_spec(image=image, requirements=("numpy<2",))
    told = run_spec(a_job(spec=spec), named_hosts(spec.instance_groups)[0], 10.0, 0)
    assert (told["image"], told["requirements"]) == (image, required)


@given(wishes())
def test_a_host_is_told_where_it_finds_everything_and_nothing_else_of_its_job_changes(
    wish: tuple[Any, tuple[LocalSource, ...]],
) -> None:
    spec, here = wish
    told = run_spec(a_job(spec=spec), named_hosts(spec.instance_groups)[0], 10.0, 0)
    needs = host_visibility.paths_to_provide(spec, here)
    assert len(needs) == len(set(needs))
    back = {f"/given/{number}/": path for number, path in enumerate(needs)}
    moved = host_visibility.translate_paths(told, here, {path: place for place, path in back.items()})
    read = [one["path"] for one in (moved["send"], moved["shared"], moved["source_dir"]) if one]
    for channel in moved["channels"]:
        read += [path for _, path in channel["entries"]] if "entries" in channel else [channel["source"]]
    assert not [path for path in read if path.startswith(OURS)]
    # Each finds what it was: put back by what was brought, it is what it was before.
    text = json.dumps(moved)
    for place in back:
        assert place in text
    assert {**moved, "channels": 0, "send": 0, "shared": 0, "source_dir": 0} == {
        **told,
        "channels": 0,
        "send": 0,
        "shared": 0,
        "source_dir": 0,
    }
    for one, channel in zip(told["channels"], moved["channels"], strict=True):
        found = next((each for each in here if each.channel == one["name"]), None)
        if found is not None and found.entries is not None:
            assert [(name, back[path]) for name, path in channel["entries"]] == [*found.entries]
        else:
            assert back.get(channel["source"], channel["source"]) == one["source"]


def test_a_job_of_urls_and_hyperparameters_needs_nothing_of_this_machine() -> None:
    spec = a_spec(channels=(Channel(name="a", source="s3://b/k"),), hyperparameters={"a": "/ours/x"})
    assert not host_visibility.has_local_files(spec)
    assert host_visibility.has_local_files(a_spec(channels=(Channel(name="a", source=str(Path("/x"))),)))
    assert host_visibility.has_local_files(a_spec(send=payload("/x")))


@pytest.mark.parametrize(
    "source",
    [
        "file:///x",
        "local:///x",
        "FILE:///x",
        "zip://a.csv::/x.zip",
        "zip://*::file:///x.zip",
        "tar://a::x.tar",
        "data/x",
    ],
)
def test_a_url_of_a_file_of_this_machine_is_refused_where_hosts_do_not_see_it(source: str) -> None:
    spec = a_spec(channels=(Channel(name="train", source=source),))
    host_visibility.check(spec, same_paths=True)
    with pytest.raises(ValidationError, match="--input train: hosts of the engine local cannot open") as refused:
        host_visibility.check(spec, same_paths=False)
    assert refused.value.cure


@pytest.mark.parametrize("source", ["/x", "/x/*.csv", "s3://b/k", "zip://a::s3://b/k.zip", "https://e.org/x", "gs://b"])
def test_paths_and_urls_of_stores_may_be_inputs_anywhere(source: str) -> None:
    host_visibility.check(a_spec(channels=(Channel(name="train", source=source),)), same_paths=False)


@pytest.mark.parametrize("runner", ["mpi", "pyspark"])
def test_what_meets_in_folders_of_hosts_is_refused_where_they_do_not_see_each_others(runner: str) -> None:
    kind = "process" if runner == "pyspark" else "train"
    wish = {"kind": kind, "distribution": Distribution(runner=runner)}
    two = a_spec(**wish, instance_groups=(InstanceGroup(instance_count=2),))
    with pytest.raises(ValidationError, match=f"--distribution {runner}: .* on several hosts") as refused:
        host_visibility.check(two, same_paths=False)
    assert refused.value.cure
    host_visibility.check(two, same_paths=True)
    host_visibility.check(a_spec(**wish), same_paths=False)


@pytest.mark.parametrize(
    "how",
    [
        {"distribution": Distribution(runner="mpi")},
        {"hyperparameters": {SWITCH: "true"}},
        {"kind": "process", "distribution": Distribution(runner="pyspark")},
    ],
)
def test_open_mpi_and_spark_work_where_hosts_reach_each_other_by_address(how: dict[str, Any]) -> None:
    two = a_spec(**how, instance_groups=(InstanceGroup(instance_count=2),))
    host_visibility.check(two, same_paths=False, host_addresses=True)


@given(
    st.dictionaries(
        st.sampled_from([flag for flag, _ in distribution.RUNNERS]),
        st.sampled_from(["true", "false", "1", "0", '""', '"x"', "x", "null"]),
    ),
    st.sampled_from(["train", "process"]),
    st.sampled_from(["v2", "v3"]),
)
def test_by_hyperparameters_exactly_that_is_refused_which_hosts_would_start_by_mpi(
    flags: dict[str, str], kind: str, contract: str
) -> None:
    two = a_spec(
        kind=kind, contract=contract, hyperparameters=flags, instance_groups=(InstanceGroup(instance_count=2),)
    )
    hosts = ["algo-1", "algo-2"]
    group = {"instance_group_name": "all", "instance_type": "local", "hosts": hosts}
    place = HostInfo("algo-1", hosts, [group], "all", "local", cpus=1, gpus=0)
    told = {"kind": kind, "contract": contract, "hyperparameters": flags, "distribution": "", "processes": None}
    found = distribution.read_distribution(scriptmode.complete({"source": "pass", **told}), place)
    try:
        host_visibility.check(two, same_paths=False)
    except ValidationError:
        assert found is not None
        assert found.runner == "mpi"
    else:
        assert found is None or found.runner != "mpi"


@pytest.mark.parametrize(
    ("flag", "is_refused"), [("true", True), ("1", True), ("True", True), ("false", False), ("0", False), (None, False)]
)
def test_mpi_by_the_hyperparameter_of_sagemaker_is_no_other_wish(flag: str | None, *, is_refused: bool) -> None:
    wished = {"sagemaker_mpi_enabled": flag} if flag is not None else {}
    two = a_spec(hyperparameters=wished, instance_groups=(InstanceGroup(instance_count=2),))
    if not is_refused:
        host_visibility.check(two, same_paths=False)
        return
    with pytest.raises(ValidationError, match=r"--hp sagemaker_mpi_enabled: .* on several hosts"):
        host_visibility.check(two, same_paths=False)


@pytest.mark.parametrize(
    ("path", "folders", "is_below"),
    [
        ("/scratch/me/x", ("/scratch",), True),
        ("/scratch", ("/scratch/",), True),
        ("/scratching/x", ("/scratch",), False),
        ("/scratch/../etc/x", ("/scratch",), False),
        ("/etc", ("/",), True),
        ("/etc", (), False),
    ],
)
def test_a_shared_folder_is_compared_name_by_name(path: str, folders: tuple[str, ...], is_below: bool) -> None:
    assert host_visibility.is_below(path, folders) is is_below
