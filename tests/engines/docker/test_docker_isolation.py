"""Missing isolation of containers is reported to the user of a job: on the record of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.docker.containers import container_spec, isolation
from jupyter_smx.engines.docker.daemon import daemon_info
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.model.records.cluster import Handle, HostHandle
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL = {"MemoryLimit": True, "SwapLimit": True, "CpuCfsQuota": True, "PidsLimit": True}
NONE = dict.fromkeys(ALL, False)
DOCKER: dict[str, Any] = {"ServerVersion": "20.10.24+dfsg1", "CgroupVersion": "1", **ALL}
PODMAN: dict[str, Any] = {**DOCKER, "ServerVersion": "4.3.1", "BuildahVersion": "1.28.2"}
ROOTLESS = ["name=rootless"]

ROOT = "Its jobs run as root in their container"
OPEN = "It can reach servers of this machine"
GPUS = "It sees all GPUs of this machine"


def lacks(
    info: Mapping[str, Any], user: str = "1:1", hosts: int = 1, *, isolated: bool = False, **plan: Any
) -> tuple[str, ...]:
    whole = {"data_dir": "/d", "user": user, "network_isolation": False, "pids": 99, "grace": 1.0, "variables": {}}
    settings = container_spec.Settings(**whole, kind=daemon_info.parse_info(info))  # type: ignore[arg-type] - of as many types
    plans = [
        HostSpec(host=f"algo-{n}", group=HOMOGENEOUS, instance_type="lab", vcpus=1, **plan) for n in range(1, hosts + 1)
    ]
    request = ClusterRequest(
        cluster="c" * 12,
        hosts=tuple(plans),
        instance_groups=(InstanceGroup(instance_count=hosts),),
        python="",
        network_isolation=isolated,
    )
    folder = HostFolder(Path("/d/clusters") / request.cluster / "algo-1")
    made = container_spec.container(request, plans[0], folder, Path("/a"), "python3", settings)
    return isolation.read(made["Labels"])


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"info": DOCKER}, []),
        ({"info": DOCKER, "user": "0:0"}, [ROOT]),
        ({"info": {**DOCKER, "SecurityOptions": ROOTLESS, "CgroupVersion": "2"}, "user": "0:0"}, []),
        ({"info": {**DOCKER, "SwapLimit": False}}, ["Swap of its jobs cannot be limited"]),
        ({"info": {**DOCKER, **NONE, "CgroupVersion": "2"}}, ["Memory, swap, CPU, processes of its jobs cannot"]),
        ({"info": {**DOCKER, "SecurityOptions": ["name=selinux"]}}, ["SELinux separation is off for its container"]),
        ({"info": {**PODMAN, "SecurityOptions": ["name=selinux"]}}, ["SELinux separation is off for its container"]),
        ({"info": DOCKER, "gpus": 1}, [GPUS]),
        ({"info": DOCKER, "gpus": 1, "devices": (1,)}, []),
        ({"info": DOCKER, "isolated": True}, []),
        ({"info": DOCKER, "isolated": True, "hosts": 2}, [OPEN]),
        ({"info": {**DOCKER, "ServerVersion": "28.0.1"}, "isolated": True, "hosts": 2}, []),
        ({"info": {**DOCKER, "ServerVersion": "27.5.1"}, "isolated": True, "hosts": 2}, [OPEN]),
        ({"info": PODMAN, "isolated": True, "hosts": 2}, [OPEN]),
        ({"info": {**DOCKER, "SwapLimit": False}, "user": "0:0", "gpus": 1}, [GPUS, ROOT, "Swap of its jobs"]),
    ],
)
def test_a_host_says_what_it_lacks_and_nothing_else(wish: dict[str, Any], said: list[str]) -> None:
    found = lacks(**wish)
    assert len(found) == len(said), found
    for sentence, beginning in zip(found, said, strict=True):
        assert sentence.startswith(beginning)
        assert sentence.endswith(".")


def test_a_network_that_is_shared_is_said_before_all_else_that_is_given_up() -> None:
    labels = {"mine": "1", **isolation.label(["It sees all."])}
    whole = {"HostConfig": {"NetworkMode": "own"}, "Labels": labels}
    shared = container_spec.use_default_network(whole, container_spec.BRIDGE)
    assert isolation.read(shared["Labels"]) == (isolation.SHARED_NETWORK, "It sees all.")
    assert shared["Labels"]["mine"] == "1"
    assert isolation.read(container_spec.use_default_network(whole, "own")["Labels"]) == ("It sees all.",)


@pytest.mark.parametrize("words", ["no json", "5", '{"a"', "", "null"])
def test_a_label_of_that_name_that_is_not_ours_says_nothing(words: str) -> None:
    assert isolation.read({isolation.LABEL: words}) == ()
    assert isolation.read(None) == isolation.read({}) == ()


def test_where_nothing_is_given_up_that_is_said_too_and_a_record_of_before_reads_as_nothing() -> None:
    assert isolation.missing_isolation(DaemonInfo(), "1000:1000") == ()
    assert isolation.label(()) == {isolation.LABEL: "[]"}
    assert json.loads(isolation.label(["a"])[isolation.LABEL]) == ["a"]
    host = HostHandle(host="algo-1", data={})
    assert replace(Handle(engine="docker", cluster="c", hosts=(host,))).hosts[0].given_up == ()
