"""What the daemon would be asked: closed in by default, whatever the request is. No daemon is needed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.agent.paths import AWS_FRONT
from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.docker.containers import container_spec, image_parts, isolation
from jupyter_smx.engines.docker.containers.container_spec import ContainerPlan, Settings
from jupyter_smx.engines.docker.containers.image_parts import ImageParts
from jupyter_smx.engines.docker.daemon import cli_config, daemon_client
from jupyter_smx.engines.docker.daemon.daemon_client import daemon_address
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.images import image_config
from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup

SETTINGS = Settings(
    data_dir="/home/me/it's a\nfolder: 日本",
    user="1000:1000",
    network_isolation=False,
    pids=4096,
    grace=120.0,
    variables={"TZ": "UTC"},
)


def request_of(plans: list[HostSpec]) -> ClusterRequest:
    groups = (InstanceGroup(instance_count=len(plans)),)
    return ClusterRequest(cluster="c" * 12, hosts=tuple(plans), instance_groups=groups, python="", image="sha256:1")


def asked(request: ClusterRequest, plan: HostSpec, settings: Settings = SETTINGS) -> dict[str, Any]:
    return ordered(request, plan, settings).container


def ordered(request: ClusterRequest, plan: HostSpec, settings: Settings = SETTINGS) -> ContainerPlan:
    folder = HostFolder(Path(settings.data_dir, "clusters", request.cluster, plan.host))
    return container_spec.container_plan(request, plan, folder, Path("/agent.pyz"), "python3", settings)


def plans(count: int = 1, **changes: Any) -> list[HostSpec]:
    whole = {"vcpus": 1, "instance_type": "local", "group": HOMOGENEOUS, **changes}
    return [HostSpec(host=f"algo-{number}", **whole) for number in range(1, count + 1)]


@pytest.mark.parametrize("isolated", ["no", "job", "engine"])
def test_only_hosts_that_reach_the_outside_see_the_socket_of_the_front(isolated: str) -> None:
    settings = replace(SETTINGS, aws_front="/home/me/aws-front", network_isolation=isolated == "engine")
    settings = replace(settings, proxies={"HTTP_PROXY": "http://proxy"})
    request = replace(request_of(plans(2)), network_isolation=isolated == "job")
    whole = asked(request, request.hosts[0], settings)
    mount = {"Type": "bind", "Source": "/home/me/aws-front", "Target": AWS_FRONT, "ReadOnly": True}
    is_open = isolated == "no"
    assert (mount in whole["HostConfig"]["Mounts"]) is is_open
    assert container_spec.host_json(request, request.hosts[0], settings)["aws_front"] == (AWS_FRONT if is_open else "")
    assert any(each.startswith("NO_PROXY=") and "127.0.0.1" in each for each in whole["Env"]) is is_open


@given(
    count=st.integers(1, 5),
    vcpus=st.integers(1, 192),
    gpus=st.integers(0, 8),
    memory=st.integers(0, 2**41),
    isolated=st.booleans(),
)
def test_every_container_is_closed_in(count: int, vcpus: int, gpus: int, memory: int, *, isolated: bool) -> None:
    wanted = plans(count, vcpus=vcpus, gpus=gpus, memory=memory)
    settings = replace(SETTINGS, network_isolation=isolated)
    request = request_of(wanted)
    for plan in wanted:
        whole = asked(request, plan, settings)
        config = whole["HostConfig"]
        assert not config.get("Privileged")
        assert (config["CapDrop"], config["SecurityOpt"], config["ReadonlyRootfs"]) == (
            ["ALL"],
            ["no-new-privileges"],
            True,
        )
        assert {"PortBindings", "Binds", "Devices", "CapAdd", "PidMode", "AutoRemove"}.isdisjoint(config)
        assert config["IpcMode"] == "private"
        assert config["NetworkMode"] != "host"
        assert "NanoCpus" not in config
        assert config["CpuQuota"] == vcpus * config["CpuPeriod"]
        assert config.get("Memory", 0) == config.get("MemorySwap", 0) == memory
        assert ("DeviceRequests" in config) == (gpus > 0)
        assert whole["User"] == "1000:1000"
        sources = {Path(mount["Source"]) for mount in config["Mounts"]}
        own = Path(settings.data_dir, "clusters", request.cluster, plan.host)
        kept = Path(settings.data_dir, "image-packages", "1-1000-1000")
        assert sources == {own, own / "ml", own / "tmp", own / "given", kept, Path("/agent.pyz")}
        assert set(config["Tmpfs"]) == {"/opt/ml/config", "/opt/ml/input/config"}
        assert all("noexec" in options and "size=" in options for options in config["Tmpfs"].values())
        closed = {mount["Target"] for mount in config["Mounts"] if mount.get("ReadOnly")}
        assert closed == {container_spec.PROVIDED_FILES, container_spec.AGENT_ARCHIVE}
        json.dumps(whole)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("isolated", [False, True])
def test_every_cluster_has_a_network_of_its_own_but_one_host_that_may_reach_nobody(
    count: int, *, isolated: bool
) -> None:
    by_job = isolated and count == 3
    settings = replace(SETTINGS, network_isolation=isolated and not by_job)
    request = replace(request_of(plans(count)), network_isolation=by_job)
    settings = replace(settings, separate_network=True)
    network = container_spec.network(request, settings)
    if count == 1 and isolated:
        assert network is None
        assert asked(request, request.hosts[0], settings)["HostConfig"]["NetworkMode"] == "none"
        return
    assert network is not None
    assert network["Internal"] is isolated
    assert network["Options"] == {}
    newer = replace(settings, kind=DaemonInfo(docker=(28, 0)))
    closed = container_spec.network(request, newer)
    assert closed is not None
    assert ("isolated" in closed["Options"].values()) is isolated
    for plan in request.hosts:
        whole, endpoint = asked(request, plan, settings), ordered(request, plan, settings).endpoint
        assert (whole["HostConfig"]["NetworkMode"], whole["NetworkingConfig"]) == ("none", {"EndpointsConfig": {}})
        assert endpoint == {"net_id": network["Name"], "aliases": [plan.host]}
        # The daemon has a way out, and looks names up for its containers unless it is told another place.
        assert (whole["HostConfig"].get("Dns") == ["127.0.0.1"]) is isolated
        podmans = ordered(request, plan, replace(settings, kind=DaemonInfo(podman=(4, 3))))
        assert podmans.endpoint == {}
        assert podmans.container["HostConfig"]["NetworkMode"] == network["Name"]
        there = podmans.container["NetworkingConfig"]["EndpointsConfig"]
        assert there == {network["Name"]: {"Aliases": [plan.host]}}
        assert whole["Hostname"] == plan.host
        assert container_spec.host_json(request, plan, settings)["addresses"] == {
            other.host: other.host for other in request.hosts
        }


@pytest.mark.parametrize(
    ("hosts", "changes", "settings", "network"),
    [
        (1, {}, {}, "bridge"),
        (2, {}, {}, "jupyter-smx-cccccccccccc"),
        (1, {}, {"separate_network": True}, "jupyter-smx-cccccccccccc"),
        (1, {"network_isolation": True}, {}, ""),
        (1, {"image_settings": ("entrypoint",)}, {}, ""),
        (1, {}, {"kind": DaemonInfo(podman=(4, 3))}, ""),
    ],
)
def test_a_single_host_joins_the_default_network_after_its_start(
    hosts: int, changes: dict[str, Any], settings: dict[str, Any], network: str
) -> None:
    request, chosen = replace(request_of(plans(hosts)), **changes), replace(SETTINGS, **settings)
    order = ordered(request, request.hosts[0], chosen)
    assert order.endpoint.get("net_id", "") == network
    is_default = network == "bridge"
    assert order.joins_default_network() is is_default
    assert (container_spec.DEFAULT_NETWORK in order.container["Labels"]) is is_default
    if is_default:
        assert container_spec.network(request, chosen) is None
        assert container_spec.separate_network(request, chosen) is not None
        assert order.container["HostConfig"]["NetworkMode"] == "none"
        assert container_spec.host_json(request, request.hosts[0], chosen)["interface"] == "eth0"


@pytest.mark.parametrize(
    ("changes", "settings"),
    [({"image_settings": ("entrypoint",)}, {}), ({}, {"kind": DaemonInfo(podman=(4, 3))})],
)
def test_a_single_host_of_podman_or_with_an_entry_point_starts_in_a_separate_network(
    changes: dict[str, Any], settings: dict[str, Any]
) -> None:
    request, chosen = replace(request_of(plans(1)), **changes), replace(SETTINGS, **settings)
    network = container_spec.network(request, chosen)
    assert network is not None
    assert ordered(request, request.hosts[0], chosen).container["HostConfig"]["NetworkMode"] == network["Name"]


def test_who_joins_dockers_default_network_is_closed_in_all_the_same() -> None:
    [plan] = plans()
    whole = asked(request_of([plan]), plan)
    shared = container_spec.use_default_network(whole, container_spec.BRIDGE)
    assert container_spec.use_default_network(whole, whole["HostConfig"]["NetworkMode"]) == whole
    assert shared["NetworkingConfig"] == {"EndpointsConfig": {}}
    changed = {name for name in whole["HostConfig"] if shared["HostConfig"][name] != whole["HostConfig"][name]}
    assert changed == {"NetworkMode"}


def test_a_volume_of_an_image_is_the_hosts_own_folder_in_opt_ml_and_is_told_elsewhere() -> None:
    [plan] = plans()
    request, own = request_of([plan]), Path("/d/clusters", "c" * 12, "algo-1")
    for volumes, there, given_up in (
        ((), [], ()),
        (("/opt/ml", "/opt/ml/model/", "/opt/ml/config"), ["model"], ()),
        (("/data//", "/opt", "/opt/ml/input/data"), ["input/data"], ("/data, /opt",)),
        ((container_spec.TMP, f"/data/..{container_spec.TMP}/a/b"), [], (f"{container_spec.TMP}/a/b",)),
    ):
        folder = HostFolder(own)
        whole = container_spec.container_plan(
            request, plan, folder, Path("/a"), "python3", SETTINGS, ImageParts(volumes=volumes)
        ).container
        kept, *more = whole["HostConfig"]["Mounts"][len(container_spec.mounts(folder, Path("/a"))) :]
        assert kept["Target"] == "/run/smx-packages"
        assert [(one["Source"], one["Target"]) for one in more] == [
            (str(own / "ml" / name), f"/opt/ml/{name}") for name in there
        ]
        said = isolation.read(whole["Labels"])
        assert [sentence.partition(" remain")[0] for sentence in said] == [
            f"Files that a job writes to {names}" for names in given_up
        ]


def test_volumes_below_tmp_have_folders_of_ours_to_be_seen_at() -> None:
    volumes = [container_spec.TMP, "/data/tmp/x", *(f"{container_spec.TMP}{end}" for end in ("/a/b/", "//a/c", "x/y"))]
    assert container_spec.tmp_volume_folders(volumes) == ["tmp/a", "tmp/a/b", "tmp/a/c"]


def test_labels_and_names_do_not_tell_others_where_the_data_lies() -> None:
    [plan] = plans()
    whole = asked(request_of([plan]), plan)
    assert "日本" not in json.dumps([whole["Labels"], whole["Env"], whole["Hostname"]], ensure_ascii=False)
    assert container_spec.owner("/a") != container_spec.owner("/b")


def test_variables_of_ours_win_over_those_that_are_passed_on() -> None:
    [plan] = plans()
    settings = replace(SETTINGS, variables={"HOME": "/root"})
    assert "HOME=/tmp" in asked(request_of([plan]), plan, settings)["Env"]


PROXY = {"httpProxy": "http://proxy:3128", "noProxy": "10.0.0.0/8"}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"proxies": {"default": PROXY}}, ["http://proxy:3128", "10.0.0.0/8,algo-1,algo-2,host.docker.internal"]),
        (
            {"proxies": {"default": {}, "unix:///x.sock": PROXY}},
            ["http://proxy:3128", "10.0.0.0/8,algo-1,algo-2,host.docker.internal"],
        ),
        ({"proxies": {"default": {"httpsProxy": "http://other"}}}, [None, "algo-1,algo-2,host.docker.internal"]),
        ({"proxies": {"default": {"noProxy": "here"}}}, [None, "here"]),
        ({"proxies": {"default": {"allProxy": "socks5://proxy"}}}, [None, "algo-1,algo-2,host.docker.internal"]),
        ({}, [None, None]),
        ({"proxies": ["no table"]}, [None, None]),
        ({"proxies": {"default": "no table"}}, [None, None]),
        (["no table"], [None, None]),
    ],
)
def test_hosts_have_the_proxies_that_docker_run_gives_and_reach_each_other_past_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: object, found: list[str | None]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    settings = replace(SETTINGS, proxies=cli_config.read_proxies("unix:///x.sock"))
    both = plans(2)
    whole = dict(line.split("=", 1) for line in asked(request_of(both), both[0], settings)["Env"])
    assert [whole.get(name) for name in ("http_proxy", "no_proxy")] == found
    assert [whole.get(name) for name in ("HTTP_PROXY", "NO_PROXY")] == found
    closed = asked(replace(request_of(both), network_isolation=True), both[0], settings)["Env"]
    assert not any("proxy" in line.lower() for line in closed)


def test_the_socket_of_the_front_is_mounted_only_from_the_data_folder_that_hosts_have_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path))
    own, other = DockerEngine(), DockerEngine(data_dir=str(tmp_path / "other"))
    assert (own.capabilities.aws_front, own._settings().aws_front) == ("relay", str(tmp_path / "aws-front"))
    assert (other.capabilities.aws_front, other._settings().aws_front) == ("none", "")


def test_a_plan_shows_no_password_of_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    proxy = {"httpProxy": "http://me:pass@proxy:3128"}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": proxy}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    engine = DockerEngine(data_dir=str(tmp_path))
    assert engine._settings().proxies["http_proxy"] == "http://me:pass@proxy:3128"
    told = json.dumps(engine.plan(request_of(plans())))
    assert "http_proxy=http://me:" in told
    assert "pass@" not in told


@pytest.mark.parametrize(
    ("where", "right"),
    [
        ("tcp://10.0.0.1:2375", "unix:///path/of/socket"),
        ("tcp://localhost:2375", "unix:///path/of/socket"),
        ("ssh://me@there", "unix:///path/of/socket"),
        ("npipe:////./pipe/docker", "unix:///path/of/socket"),
        ("/run/x.sock", "unix:///run/x.sock"),
        ("unix:/run/x.sock", "unix:///run/x.sock"),
        ("unix://run/x.sock", "unix:///run/x.sock"),
        ("unix://", "unix:///path/of/socket"),
    ],
)
def test_what_is_no_unix_socket_is_refused_with_what_is_one(where: str, right: str) -> None:
    with pytest.raises(RefusedError, match="is not the address of a unix socket") as told:
        daemon_address("", {"DOCKER_HOST": where})
    assert (told.value.field, told.value.value) == ("docker_host", where)
    assert f"to {right}. " in told.value.cure
    # To set it is not enough: the controller has its environment since it began.
    assert f"kill {os.getpid()} " in told.value.cure


def test_what_is_configured_goes_before_the_environment() -> None:
    assert daemon_address("unix:///a.sock", {"DOCKER_HOST": "unix:///b.sock"}) == "unix:///a.sock"
    assert daemon_address("", {"DOCKER_HOST": "unix:///b.sock"}) == "unix:///b.sock"


def test_where_nothing_is_said_the_nearest_socket_that_is_there_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setattr(daemon_client, "_DEFAULT_ADDRESS", usual)
    closed = tmp_path / ("x" * 300)  # to root as to others what a folder is that one may not look into
    known = {"DOCKER_CONFIG": str(tmp_path)}
    assert daemon_address("", {**known, "XDG_RUNTIME_DIR": str(closed)}) == usual
    places = [tmp_path / "own" / "podman" / "podman.sock", tmp_path / "own" / "docker.sock", tmp_path / "docker.sock"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        assert daemon_address("", {**known, "XDG_RUNTIME_DIR": str(tmp_path / "own")}) == f"unix://{place}"


def test_the_context_in_use_says_where_the_daemon_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    known, config = {"DOCKER_CONFIG": str(tmp_path)}, tmp_path / "config.json"
    config.write_text("{}")  # where it is missing Docker's library writes contexts into the folder it is in
    from docker.context import ContextAPI  # noqa: PLC0415 - it reads DOCKER_CONFIG

    ContextAPI.create_context("mine", host="unix:///mine.sock")
    ContextAPI.create_context("far", host="tcp://far:2376")
    config.write_text(json.dumps({"currentContext": "mine"}))
    assert daemon_address("", known) == "unix:///mine.sock"
    assert daemon_address("", {**known, "DOCKER_HOST": "unix:///b.sock"}) == "unix:///b.sock"
    assert daemon_address("", {**known, "DOCKER_CONTEXT": "default"}) != "unix:///mine.sock"
    with pytest.raises(RefusedError, match="//far:2376' is not the address of a unix socket"):
        daemon_address("", {**known, "DOCKER_CONTEXT": "far"})
    config.unlink()
    assert daemon_address("", {**known, "DOCKER_CONTEXT": "mine"}) == "unix:///mine.sock"


@pytest.mark.parametrize("words", ["{torn", "[]", '{"Endpoints": {"kubernetes": {"Host": "https://far"}}}', "a folder"])
def test_a_context_that_says_nothing_of_a_daemon_is_refused_and_no_other_one_taken(tmp_path: Path, words: str) -> None:
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    if words == "a folder":
        meta.mkdir()
    else:
        meta.write_text(words)
    with pytest.raises(RefusedError, match="address of context 'mine'") as told:
        daemon_address("", {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "mine"})
    assert (told.value.field, told.value.value) == ("docker_host", "mine")
    assert told.value.cure


def test_a_context_that_is_not_there_is_refused_and_no_other_daemon_taken(tmp_path: Path) -> None:
    known = {"DOCKER_CONFIG": str(tmp_path)}
    with pytest.raises(RefusedError, match="has no context 'theirs'") as told:
        daemon_address("", {**known, "DOCKER_CONTEXT": "theirs"})
    assert (told.value.field, told.value.value) == ("docker_host", "theirs")
    assert f"kill {os.getpid()} " in told.value.cure
    (tmp_path / "config.json").write_text('{"currentContext": "gone"}')
    with pytest.raises(RefusedError, match="has no context 'gone'"):
        daemon_address("", known)
    for nonsense in ("[]", "{", '{"currentContext": null}'):
        (tmp_path / "config.json").write_text(nonsense)
        assert daemon_address("", known).startswith("unix://")


def test_the_agent_of_an_image_without_bytecode_reads_it_from_the_folder_of_the_image() -> None:
    [plan] = plans()
    folder = HostFolder(Path("/d/clusters", "c" * 12, "algo-1"))
    for has_bytecode, options, variables in (
        (True, ["-I"], []),
        (
            False,
            ["-I", "-X", "pycache_prefix=/run/smx-bytecode"],
            ["PYTHONPYCACHEPREFIX=/run/smx-bytecode"],
        ),
    ):
        asked = container_spec.container(
            request_of([plan]), plan, folder, Path("/a"), "python3", SETTINGS, ImageParts(has_bytecode=has_bytecode)
        )
        assert asked["Entrypoint"][1 : asked["Entrypoint"].index("-c")] == options
        assert [each for each in asked["Env"] if each.startswith("PYTHONPYCACHEPREFIX")] == variables


def test_an_agent_whose_python_starts_as_that_of_jobs_forks_its_first_zygote() -> None:
    [plan] = plans()
    folder = HostFolder(Path("/d/clusters", "c" * 12, "algo-1"))
    for usual, names, options, forks in (
        (True, ("TZ",), [], True),
        (True, ("PYTHONPATH",), ["-I"], False),
        (False, ("TZ",), ["-I"], False),
    ):
        settings = replace(SETTINGS, variables=dict.fromkeys(names, "x"))
        parts = ImageParts(has_usual_python=usual)
        asked = container_spec.container(request_of([plan]), plan, folder, Path("/a"), "python3", settings, parts)
        words = asked["Entrypoint"]
        assert (words[1 : words.index("-c")], "--fork-zygote" in words) == (options, forks)


def test_the_python_of_an_image_is_unusual_with_variables_that_change_what_it_imports() -> None:
    usual = ["PATH=/bin", "PYTHON_VERSION=3.11", "PYTHONUNBUFFERED=1", "NAME"]
    assert image_config.variable_names({"Config": {"Env": usual}}) == [
        "PATH",
        "PYTHON_VERSION",
        "PYTHONUNBUFFERED",
        "NAME",
    ]
    unwritten = ["PYTHONDONTWRITEBYTECODE=1"]
    for more, has_bytecode, expected in (
        ([], True, True),
        ([], False, True),
        (["PYTHONPATH=/code"], True, False),
        (["PYTHONHOME=/"], True, False),
        (unwritten, True, True),
        (unwritten, False, False),  # the agent would keep nothing of what it compiles
    ):
        names = image_config.variable_names({"Config": {"Env": usual + more}})
        assert image_parts.is_usual_python(names, has_bytecode=has_bytecode) is expected
    assert image_config.variable_names({"Config": {"Env": None}}) == []
