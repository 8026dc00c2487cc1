"""What daemons say of themselves, as they were recorded, and what follows for hosts. No daemon is needed."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nobody
import pytest
from msgspec.structs import replace

from jupyter_smx.agent.system.resources import cgroups
from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.docker.containers import container_spec, isolation
from jupyter_smx.engines.docker.containers.container_spec import Settings
from jupyter_smx.engines.docker.daemon import daemon_info
from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup

if TYPE_CHECKING:
    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

ALL = {"MemoryLimit": True, "SwapLimit": True, "CpuCfsQuota": True, "PidsLimit": True}
NONE = dict.fromkeys(ALL, False)
DOCKER = {"ServerVersion": "20.10.24+dfsg1", "SecurityOptions": ["name=seccomp,profile=default"], "CgroupVersion": "1"}
ROOTLESS = {**DOCKER, "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}
VERSION_2 = {**ALL, "SwapLimit": False, "CgroupDriver": "cgroupfs", "CgroupVersion": "2"}
"""Of a daemon on version 2 of control groups with its controllers: kernel 6.1 in a virtual machine, booted for this."""
PODMAN = {
    "ServerVersion": "4.3.1",
    "BuildahVersion": "1.28.2",
    "SecurityOptions": ["name=seccomp,profile=default"],
    "CgroupVersion": "1",
    "CgroupDriver": "cgroupfs",
    "Rootless": False,
}
OTHERS = {**PODMAN, "Rootless": True}
PODMAN_5 = {**PODMAN, "ServerVersion": "5.4.2", "CgroupVersion": "2", "CgroupDriver": "systemd"}
PODMAN_5 |= {**ALL, "SwapLimit": False, "CpuCfsQuota": False}
"""What Podman says in Docker's words with version 2 of control groups and all controllers, in a virtual machine."""
EVERY = ("memory", "swap", "cpu", "pids")


@pytest.mark.parametrize(
    ("info", "name", "unlimited"),
    [
        ({**DOCKER, **ALL}, "Docker", ()),
        ({**DOCKER, **ALL, "SwapLimit": False}, "Docker", ("swap",)),
        ({**DOCKER, **NONE, "CgroupVersion": "2"}, "Docker", EVERY),
        ({**DOCKER, **VERSION_2}, "Docker", ("swap",)),
        ({**ROOTLESS, **NONE}, "Docker, without root's rights", EVERY),
        ({**ROOTLESS, **ALL, "CgroupVersion": "2", "CpuCfsQuota": False}, "Docker, without root's rights", ("cpu",)),
        ({**PODMAN, **ALL}, "Podman 4.3.1", ()),
        ({**OTHERS, **ALL}, "Podman 4.3.1, without root's rights", EVERY),
        ({**OTHERS, **ALL, "CgroupVersion": "2"}, "Podman 4.3.1, without root's rights", EVERY),
        ({**OTHERS, **ALL, "CgroupVersion": "2", "CgroupDriver": "systemd"}, "Podman 4.3.1, without root's rights", ()),
    ],
)
def test_a_daemon_is_known_by_what_it_says(info: dict[str, Any], name: str, unlimited: tuple[str, ...]) -> None:
    kind = daemon_info.parse_info(info)
    assert (kind.description(), kind.unlimited) == (name, unlimited)


@pytest.mark.parametrize(
    ("options", "labelled"),
    [
        (["name=seccomp,profile=default", "name=selinux"], True),
        (["name=apparmor", "name=seccomp,profile=builtin"], False),
        (["name=seccomp,profile=/etc/name=selinux"], False),
        ([], False),
    ],
)
def test_selinux_is_left_out_where_it_is_there_and_nothing_else(options: list[str], *, labelled: bool) -> None:
    """What Docker and Podman say on Fedora; a container there may not even look into a folder of its user."""
    kind = daemon_info.parse_info({**DOCKER, "SecurityOptions": options})
    assert isolation.security_options(kind) == ["no-new-privileges", *["label=disable"] * labelled]


@pytest.mark.parametrize("rootless", [False, True])
@pytest.mark.parametrize(
    ("told", "unlimited"),
    [
        ({"host": {"cgroupControllers": ["cpu", "io", "memory", "pids"]}}, ()),
        ({"host": {"cgroupControllers": ["memory", "pids"]}}, ("cpu",)),
        ({"host": {"cgroupControllers": []}}, EVERY),
        ({"host": {"cgroupControllers": None}}, ("swap", "cpu")),
        ({"host": None}, ("swap", "cpu")),
        (None, ("swap", "cpu")),
    ],
)
async def test_what_podman_can_limit_with_version_2_is_asked_in_its_own_words(
    daemon: FakeDockerd, told: dict[str, Any] | None, unlimited: tuple[str, ...], *, rootless: bool
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    daemon.info = {**PODMAN_5, "Rootless": rootless}
    if told is None:
        daemon.refuses[f"GET {daemon_info.PODMAN_INFO_PATH}"] = (404, "Not Found")
    daemon.podman = told or {}
    assert (await Daemon(daemon.url, 15.0).detect_kind()).unlimited == unlimited


async def test_docker_is_not_asked_what_only_podman_tells(daemon: FakeDockerd) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    daemon.info = {**DOCKER, **VERSION_2}
    assert (await Daemon(daemon.url, 15.0).detect_kind()).unlimited == ("swap",)
    assert not any("libpod" in what for what in daemon.asked)


async def test_a_daemon_is_asked_for_its_version_once(daemon: FakeDockerd) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    asks = Daemon(daemon.url, 15.0)
    await asks.info()
    await asks.call(lambda api: api.info())  # a question that has longer
    assert len([what for what in daemon.asked if "/info" in what]) == 2
    assert len([what for what in daemon.asked if "/version" in what]) == 1


def request_of(**changes: Any) -> ClusterRequest:
    plan = HostSpec(host="algo-1", **{"vcpus": 2, "instance_type": "lab", "group": HOMOGENEOUS, **changes})
    groups = (InstanceGroup(instance_count=1),)
    return ClusterRequest(cluster="c" * 12, hosts=(plan,), instance_groups=groups, python="", image="sha256:1")


def settings_of(kind: DaemonInfo) -> Settings:
    whole = {"data_dir": "/home/me", "user": "1:1", "network_isolation": False, "pids": 99, "grace": 1.0}
    return Settings(**whole, variables={}, kind=kind)  # type: ignore[arg-type] - of as many types


def order_of(request: ClusterRequest, kind: DaemonInfo) -> container_spec.ContainerPlan:
    folder, settings = HostFolder(Path("/home/me/clusters/c/algo-1")), settings_of(kind)
    return container_spec.container_plan(request, request.hosts[0], folder, Path("/a.pyz"), "python3", settings)


def host_config(request: ClusterRequest, kind: DaemonInfo) -> dict[str, Any]:
    found: dict[str, Any] = order_of(request, kind).container["HostConfig"]
    return found


@pytest.mark.parametrize("missing", [(), ("cpu",), ("memory", "swap"), EVERY])
def test_a_limit_that_cannot_be_set_is_not_asked_for_and_the_job_is_told(missing: tuple[str, ...]) -> None:
    info = {**DOCKER, "CgroupVersion": "2"} | {
        field: word not in missing for field, word in zip(ALL, EVERY, strict=True)
    }
    kind, request = daemon_info.parse_info(info), request_of(memory=1 << 30)
    config = host_config(request, kind)
    assert ("CpuPeriod" in config) == ("CpuQuota" in config) == ("cpu" not in missing)
    podmans = host_config(request, replace(kind, podman=(4, 3)))
    assert ("NanoCpus" in podmans) == ("cpu" not in missing)
    assert {"CpuPeriod", "CpuQuota"}.isdisjoint(podmans)
    assert ("Memory" in config) == ("MemorySwap" in config) == ("memory" not in missing)
    assert ("PidsLimit" in config) == ("pids" not in missing)
    told: Any = container_spec.host_json(request, request.hosts[0], settings_of(kind))["limits"]
    known = cgroups.load_limits(told, "lab")
    cgroups.load_limits({}, "")
    free = " and ".join(word for name, word in (("cpu", "CPU"), ("memory", "memory")) if name in missing)
    said = f"{free} of jobs are not limited here: the daemon lacks a control group for it (version 2)."
    assert known.note() == (said if free else "")


def test_what_nobody_asked_to_be_limited_is_no_news() -> None:
    kind = daemon_info.parse_info({**DOCKER, **ALL, "SwapLimit": False})
    request = request_of(memory=0)
    told: Any = container_spec.host_json(request, request.hosts[0], settings_of(kind))["limits"]
    assert told == {"cpus": 2, "memory": 0, "whole": ["cpu"]}


def test_a_daemon_of_a_user_is_refused_to_a_controller_of_root() -> None:
    kind = daemon_info.parse_info({**ROOTLESS, **NONE})
    daemon_info.check(kind, "unix:///run/user/1000/docker.sock", "/home/me", 1000)
    with pytest.raises(RefusedError, match="without root's rights, and the controller is root") as told:
        daemon_info.check(kind, "unix:///run/user/1000/docker.sock", "/root", 0)
    assert (told.value.field, told.value.value) == ("docker_host", "unix:///run/user/1000/docker.sock")
    assert told.value.cure


@pytest.mark.parametrize("path", ["/home/a,b", '/home/"me"', "/home/a\nb"])
def test_a_path_that_podman_takes_apart_is_refused(path: str) -> None:
    daemon_info.check(daemon_info.parse_info({**DOCKER, **ALL}), "unix:///x", path, 0)
    kind = daemon_info.parse_info({**PODMAN, **ALL})
    daemon_info.check(kind, "unix:///x", "/home/it's $(me) & 日本: 100 %s", 0)
    with pytest.raises(RefusedError, match="Podman cannot mount") as told:
        daemon_info.check(kind, "unix:///x", path, 0)
    assert (told.value.field, told.value.value) == ("data_dir", path)


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("unix:///var/run/docker.sock", "dockerd, or systemctl start docker"),
        ("unix:///run/user/1000/docker.sock", "dockerd-rootless.sh, or systemctl --user start docker"),
        ("unix:///run/podman/podman.sock", "systemctl start podman.socket"),
        ("unix:///run/user/1000/podman/podman.sock", "systemctl --user start podman.socket"),
    ],
)
def test_a_daemon_that_does_not_answer_is_started_as_whose_it_is(url: str, start: str) -> None:
    assert daemon_info.guess_from_url(url).start_command() == start


@pytest.mark.skipif(not nobody.interpreter(), reason="Needs root, and a Python that another user may start.")
def test_a_socket_that_is_closed_to_the_user_is_not_taken_for_a_daemon_that_does_not_run() -> None:
    with nobody.home() as home, socket.socket(socket.AF_UNIX) as daemon:
        path = home / "docker.sock"
        daemon.bind(str(path))
        path.chmod(0o600)
        daemon.listen()
        told = nobody.run(ASK, f"unix://{path}", home=str(home))
    assert told.startswith(f"Let this user write to {path}, as by the group that owns it. A new group applies")


ASK = """
import asyncio, sys
from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
from jupyter_smx.model.errors import UnavailableError
async def ask():
    try:
        await Daemon(sys.argv[1], 5).info()
    except UnavailableError as error:
        print(error.cure)
asyncio.run(ask())
"""
