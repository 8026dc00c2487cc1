"""What the local engine says when a cluster cannot come up, and that nothing stays of it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.errors import EXIT_OPT_ML_TAKEN
from jupyter_smx.engines.base import ClusterRequest, HostSpec, Observation
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.engines.machine import host_folder, request_validation
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


ANSWERS_VERSION = 'case "$2" in -c) exec {python} "$@";; esac\n'
"""``python -I -c …`` asks for the version, ``python -I <archive> serve …`` is the agent."""

SCRIPTS = {
    "is_too_old": "echo 3 7",
    "answers_nonsense": "echo hello world again",
    "fails_when_asked": "exit 1",
    "dies_at_once": ANSWERS_VERSION + "echo 'cannot find the moon' >&2\necho 'giving up' >&2\nexit 17",
    "finds_another_host_in_opt_ml": ANSWERS_VERSION + f"exit {EXIT_OPT_ML_TAKEN}",
    "tells_its_environment": ANSWERS_VERSION + "env\nexit 1",
    "is_killed_at_once": ANSWERS_VERSION + "kill -9 $$",
    "never_gets_ready": ANSWERS_VERSION + "echo 'still thinking' >&2\nwhile :; do sleep 1000; done",
    "closes_its_pipe_and_stays": ANSWERS_VERSION + 'eval "exec $6>&-"\nwhile :; do sleep 1000; done',
    "vanishes_after_the_question": 'rm -- "$0"\nexec {python} "$@"',
    "fails_on_the_second_host": ANSWERS_VERSION + 'case "$4" in *algo-2) exit 9;; esac\nexec {python} "$@"',
}


def failing_python(folder: Path, failure: str) -> str:
    """Write the script that fails in this way and give its path."""
    path = folder / failure
    path.write_text("#!/bin/bash\n" + SCRIPTS[failure].replace("{python}", shlex.quote(sys.executable)) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    harness = LocalHarness(tmp_path / "smx")
    yield harness
    await harness.close()


async def refusal(world: LocalHarness, request: ClusterRequest) -> RefusedError:
    with pytest.raises(RefusedError) as told:
        await world.acquire(request)
    assert world.launch_counts(request.cluster) == {}
    assert told.value.rule
    return told.value


async def failure(world: LocalHarness, request: ClusterRequest) -> UnavailableError:
    """Acquire what cannot come up; afterwards nothing is left and the id is used up."""
    with pytest.raises(UnavailableError) as told:
        await world.acquire(request)
    assert world.leftovers(request.cluster) == []
    assert await world.engine.find(request.cluster) is None
    return told.value


def with_python(world: LocalHarness, python: str, hosts: int = 1) -> ClusterRequest:
    return msgspec.structs.replace(world.request(hosts), python=python)


@pytest.mark.parametrize("kind", ["is_too_old", "answers_nonsense", "fails_when_asked"])
async def test_an_interpreter_that_cannot_run_an_agent_is_refused(
    world: LocalHarness, tmp_path: Path, kind: str
) -> None:
    python = failing_python(tmp_path, kind)
    told = await refusal(world, with_python(world, python))
    assert (told.field, told.value) == ("python", python)
    assert "3.8" in told.rule


@pytest.mark.parametrize("python", ["", "python", "/", "/nowhere/python", "/etc/passwd", "a\0b", "/bin/false"])
async def test_what_is_no_interpreter_is_refused(world: LocalHarness, python: str) -> None:
    told = await refusal(world, with_python(world, python))
    assert (told.field, told.value) == ("python", python)
    assert told.cure


@pytest.mark.parametrize("name", ["", "..", "a/b", "../../etc", "a\0b", "-x", "x" * 64, "a\n"])
async def test_names_that_are_no_folder_names_are_refused(world: LocalHarness, name: str) -> None:
    hosts = (HostSpec(host=name, group="homogeneousCluster", instance_type="local", vcpus=1),)
    assert (await refusal(world, msgspec.structs.replace(world.request(), hosts=hosts))).field == "hosts"
    with pytest.raises(RefusedError):
        await world.acquire(msgspec.structs.replace(world.request(), cluster=name))
    assert not (world.folder / "clusters").exists()


async def test_a_cluster_without_hosts_or_with_twins_is_refused(world: LocalHarness) -> None:
    request = world.request(2)
    assert (await refusal(world, msgspec.structs.replace(request, hosts=()))).field == "hosts"
    twins = (request.hosts[0], request.hosts[0])
    assert (await refusal(world, msgspec.structs.replace(request, hosts=twins))).field == "hosts"


async def test_a_data_folder_that_cannot_be_written_is_refused_with_the_cure(tmp_path: Path) -> None:
    world = LocalHarness(tmp_path / "smx")
    (world.folder / "clusters").write_text("a file is in the way")
    told = await refusal(world, world.request())
    assert (told.field, told.value) == ("data_dir", str(world.folder))
    assert "JUPYTER_SMX_DATA_DIR" in told.cure


async def test_an_agent_that_dies_is_told_with_its_last_words(world: LocalHarness, tmp_path: Path) -> None:
    told = await failure(world, with_python(world, failing_python(tmp_path, "dies_at_once")))
    assert "exit code 17" in told.message
    assert "cannot find the moon | giving up" in told.rule
    assert "agent.log" in told.cure


async def test_a_host_whose_jobs_would_find_the_files_of_another_one_does_not_start(
    world: LocalHarness, tmp_path: Path
) -> None:
    told = await failure(world, with_python(world, failing_python(tmp_path, "finds_another_host_in_opt_ml")))
    assert "the /opt/ml of this machine leads to another host" in told.message
    assert "LocalEngine.use_machine_opt_ml" in told.rule
    assert told.cure == "Release that host, or turn the option off."


def test_there_is_one_slot_where_all_hosts_would_have_the_opt_ml_of_the_machine(tmp_path: Path) -> None:
    engine = LocalEngine(data_dir=str(tmp_path))
    assert engine.slots() is None
    engine.use_machine_opt_ml = True
    assert engine.slots() == 1
    engine.use_machine_opt_ml = False
    assert engine.slots() is None


async def test_not_even_an_agent_is_told_what_belongs_to_the_server(
    world: LocalHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "MY_COMPANY_KEY"):
        monkeypatch.setenv(name, "a secret of the server")
    world.engine.hidden_variables = ["MY_COMPANY_KEY"]
    request = with_python(world, failing_python(tmp_path, "tells_its_environment"))
    await failure(world, request)
    told = (world.cluster_folder(request.cluster) / "algo-1" / "agent.log").read_text()
    assert f"JUPYTER_SMX_HOST={request.cluster}/algo-1" in told
    assert "a secret of the server" not in told


async def test_an_agent_that_is_killed_is_told_with_the_signal(world: LocalHarness, tmp_path: Path) -> None:
    told = await failure(world, with_python(world, failing_python(tmp_path, "is_killed_at_once")))
    assert "signal SIGKILL" in told.message


async def test_an_interpreter_that_vanishes_meanwhile_is_told(world: LocalHarness, tmp_path: Path) -> None:
    told = await failure(world, with_python(world, failing_python(tmp_path, "vanishes_after_the_question"), hosts=2))
    assert "could not be started" in told.message
    assert "No such file" in told.message


@pytest.mark.parametrize("kind", ["never_gets_ready", "closes_its_pipe_and_stays"])
async def test_an_agent_that_never_gets_ready_is_given_up_after_the_time_limit(tmp_path: Path, kind: str) -> None:
    world = LocalHarness(tmp_path / "smx", launch_timeout=0.5)
    told = await failure(world, with_python(world, failing_python(tmp_path, kind)))
    assert "did not report within 500 ms" in told.message
    assert told.transient


async def test_when_one_host_fails_the_others_are_released(world: LocalHarness, tmp_path: Path) -> None:
    request = with_python(world, failing_python(tmp_path, "fails_on_the_second_host"), hosts=3)
    told = await failure(world, request)
    assert told.value == "algo-2"
    assert world.live_hosts(request.cluster) == set()


async def test_a_folder_that_was_claimed_by_an_agent_that_died_young_is_an_error_and_no_wait(
    world: LocalHarness,
) -> None:
    request = world.request()
    folder = world.cluster_folder(request.cluster) / "algo-1"
    folder.mkdir(parents=True)
    (folder / "claim").touch()
    told = await failure(world, request)
    assert "died" in told.message


async def test_a_cluster_whose_agent_died_is_not_launched_a_second_time(world: LocalHarness) -> None:
    request = world.request()
    await world.acquire(request)
    world.kill_agent(request.cluster, "algo-1")
    told = await failure(world, request)
    assert "died" in told.message
    assert world.launch_counts(request.cluster) == {"algo-1": 1}


async def test_an_acquire_that_has_no_agent_yet_is_unknown_and_is_gone_when_its_time_is_over(
    world: LocalHarness,
) -> None:
    cluster = world.request().cluster
    (world.cluster_folder(cluster) / "algo-1").mkdir(parents=True)
    handle = Handle(engine="local", cluster=cluster)
    assert await world.engine.find(cluster) == handle
    assert await world.engine.observe_all([handle]) == [Observation.UNKNOWN]
    os.utime(world.cluster_folder(cluster), (1.0, 1.0))
    assert await world.engine.observe_all([handle]) == [Observation.GONE]


def test_a_system_whose_socket_addresses_are_short_refuses_a_long_path_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_folder, "_LINUX", False)
    request_validation.check_sockets([host_folder.HostFolder(Path("/short"))])
    with pytest.raises(RefusedError) as told:
        request_validation.check_sockets([host_folder.HostFolder(tmp_path / ("x" * 100))])
    assert told.value.field == "data_dir"
    assert "JUPYTER_SMX_DATA_DIR" in told.value.cure


GROUPS = st.lists(
    st.builds(
        InstanceGroup,
        name=st.sampled_from(["data", "train", "eval"]),
        instance_type=st.sampled_from(["local", "ml.m5.xlarge"]),
        instance_count=st.integers(1, 3),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda group: group.name,
)


@given(groups=GROUPS, vcpus=st.integers(1, 96), gpus=st.integers(0, 8), idle=st.floats(1, 1e6), isolate=st.booleans())
def test_a_host_is_told_its_own_share_and_who_else_there_is(
    groups: list[InstanceGroup], vcpus: int, gpus: int, idle: float, isolate: bool
) -> None:
    owners = [group for group in groups for _ in range(group.instance_count)]
    hosts = tuple(
        HostSpec(host=f"algo-{number}", group=group.name, instance_type=group.instance_type, vcpus=vcpus, gpus=gpus)
        for number, group in enumerate(owners, 1)
    )
    request = ClusterRequest(
        cluster="c1", hosts=hosts, instance_groups=tuple(groups), python="/p", idle_limit=idle, preload=("json",)
    )
    for host in hosts:
        told = host_folder.description(request, host, start_method="spawn", isolate=isolate, grace=7.0, limits={})
        assert (told["host"], told["group"], told["instance_type"]) == (host.host, host.group, host.instance_type)
        assert (told["threads"], told["gpus"], told["idle_limit"]) == (vcpus, gpus, idle)
        assert (told["start_method"], told["isolate"], told["grace"], told["preload"]) == (
            "spawn",
            isolate,
            7.0,
            ["json"],
        )
        assert told["hosts"] == [other.host for other in hosts]
        members = told["groups"]
        assert isinstance(members, list)
        assert [name for group in members for name in group["hosts"]] == told["hosts"]
        assert [len(group["hosts"]) for group in members] == [group.instance_count for group in groups]


@given(st.text(max_size=70))
def test_a_plain_name_is_one_component_of_a_path_and_no_option(name: str) -> None:
    if request_validation.is_valid_name(name):
        assert Path("/root", name).parts == ("/", "root", name)
        assert name not in (".", "..")
        assert not name.startswith("-")
        assert name.isascii()
        assert len(name) <= 63
