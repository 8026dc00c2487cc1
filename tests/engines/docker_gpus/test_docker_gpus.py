"""GPUs of containers: which ones a daemon is asked for, and what is said where it has none to give.

Words of daemons are as they were recorded; no GPU is needed, and none was ever here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.docker.containers import container_spec, gpus
from jupyter_smx.engines.docker.daemon import daemon_info
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup

DOCKER = DaemonInfo(docker=(20, 10, 24))
PODMAN = {"BuildahVersion": "1.28.2", "CgroupVersion": "1", "Rootless": False}


def host(name: str = "algo-1", gpus: int = 1, devices: tuple[int, ...] = ()) -> HostSpec:
    return HostSpec(host=name, group=HOMOGENEOUS, instance_type="lab.gpu", vcpus=1, gpus=gpus, devices=devices)


def request_of(*hosts: HostSpec) -> ClusterRequest:
    groups = (InstanceGroup(instance_count=len(hosts)),)
    return ClusterRequest(cluster="c" * 12, hosts=hosts, instance_groups=groups, python="", image="sha256:1")


def container(plan: HostSpec, kind: DaemonInfo = DOCKER, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    settings = container_spec.Settings(
        data_dir="/d",
        user="1:1",
        network_isolation=False,
        pids=99,
        grace=1.0,
        variables={},
        kind=kind,
        visible_gpus=seen,
    )
    folder = HostFolder(Path("/d/clusters") / ("c" * 12) / plan.host)
    return container_spec.container(request_of(plan), plan, folder, Path("/a.pyz"), "python3", settings)


@pytest.mark.parametrize(
    ("kind", "devices", "seen", "asked"),
    [
        (DOCKER, (0,), (), {"Driver": "", "DeviceIDs": ["0"], "Capabilities": [["gpu"]]}),
        (DOCKER, (1, 3), (), {"Driver": "", "DeviceIDs": ["1", "3"], "Capabilities": [["gpu"]]}),
        (DOCKER, (0, 1), ("2", "GPU-8d"), {"Driver": "", "DeviceIDs": ["2", "GPU-8d"], "Capabilities": [["gpu"]]}),
        (DOCKER, (), (), {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}),
        (DaemonInfo(podman=(5, 4)), (1,), (), {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=1"]}),
        (DaemonInfo(podman=(5, 4)), (0,), ("GPU-8d",), {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-8d"]}),
        (DaemonInfo(podman=(5, 4)), (), (), {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}),
    ],
)
def test_a_host_is_asked_for_with_its_own_gpus(
    kind: DaemonInfo, devices: tuple[int, ...], seen: tuple[str, ...], asked: dict[str, Any]
) -> None:
    whole = container(host(gpus=max(1, len(devices)), devices=devices), kind, seen)
    assert whole["HostConfig"]["DeviceRequests"] == [asked]
    # Docker's own library takes the same words.
    from docker.types import DeviceRequest  # noqa: PLC0415 - imports Docker's library

    names = {"Driver": "driver", "DeviceIDs": "device_ids", "Count": "count", "Capabilities": "capabilities"}
    made = DeviceRequest(**{names[name]: value for name, value in asked.items()})
    assert {name: value for name, value in made.items() if value} == {n: v for n, v in asked.items() if v}


def test_a_host_without_gpus_gets_none_by_what_its_image_says() -> None:
    """An image of CUDA asks for all, and a daemon whose usual runtime is NVIDIA's gives them."""
    assert "NVIDIA_VISIBLE_DEVICES=void" in container(host(gpus=0))["Env"]
    assert "DeviceRequests" not in container(host(gpus=0))["HostConfig"]
    assert not any(row.startswith("NVIDIA_VISIBLE_DEVICES") for row in container(host(devices=(0,)))["Env"])


@given(st.lists(st.integers(0, 7), min_size=2, max_size=8, unique=True))
def test_hosts_that_were_given_different_gpus_are_asked_for_with_different_ones(numbers: list[int]) -> None:
    asked = [container(host(f"algo-{n}", devices=(n,)))["HostConfig"]["DeviceRequests"][0] for n in numbers]
    names = [name for one in asked for name in one["DeviceIDs"]]
    assert len(set(names)) == len(numbers)
    assert all("Count" not in one for one in asked), "a count is the first so many, for each host the same"


@pytest.mark.parametrize(
    ("variables", "seen"),
    [({}, ()), ({"CUDA_VISIBLE_DEVICES": ""}, ()), ({"CUDA_VISIBLE_DEVICES": " 2, GPU-8d "}, ("2", "GPU-8d"))],
)
def test_a_controller_that_was_given_some_gpus_gives_those(variables: dict[str, str], seen: tuple[str, ...]) -> None:
    assert gpus.visible_gpus(variables) == seen


@pytest.mark.parametrize(
    ("version", "gives"), [("4.9.3", False), ("5.3.2", False), ("5.4.0", True), ("6.0.0-dev", True), ("", False)]
)
def test_podman_gives_gpus_by_cdi_or_refuses_them(version: str, *, gives: bool) -> None:
    kind, request = daemon_info.parse_info({**PODMAN, "ServerVersion": version}), request_of(host())
    gpus.check(kind, request_of(host(gpus=0)))
    gpus.check(DOCKER, request)
    if gives:
        gpus.check(kind, request)
        return
    with pytest.raises(RefusedError, match="does not give GPUs to containers") as told:
        gpus.check(kind, request)
    assert (told.value.field, told.value.value) == ("instance_type", "lab.gpu")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (DOCKER, 'could not select device driver "" with capabilities: [[gpu]]'),
        (DOCKER, "could not select device driver with capabilities: [[gpu]]"),
        (DOCKER, "error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all"),
        (DaemonInfo(is_rootless=True), 'could not select device driver "" with capabilities: [[gpu]]'),
        (DaemonInfo(podman=(5, 4)), "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=1"),
    ],
)
def test_a_daemon_without_a_gpu_to_give_is_refused_for_good(kind: DaemonInfo, words: str) -> None:
    told = gpus.refusal(kind, host(), words)
    assert told is not None
    assert (told.field, told.value, told.transient) == ("instance_type", "lab.gpu", False)
    assert f"{kind.name} cannot give GPUs to hosts of lab.gpu" in str(told)
    assert "nvidia-container-toolkit" in told.cure
    assert ("nvidia-ctk cdi generate" in told.cure) == bool(kind.podman)
    assert ("no-cgroups" in told.cure) == kind.is_rootless


HOOK = "OCI runtime create failed: runc create failed: error running hook #0: exit status 1, stderr: {}: unknown"


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1", "that nvidia-smi works"),
        ("nvidia-container-cli: initialization error: driver not loaded", "that nvidia-smi works"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "that nvidia-smi works"),
        ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch", "restart this"),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver",
            "an image for an older CUDA",
        ),
        ("nvidia-container-cli: device error: 5: unknown device", "nvidia-smi -L"),
    ],
)
def test_a_toolkit_that_is_there_is_not_to_be_installed_again(words: str, cure: str) -> None:
    check_cure(HOOK.format(words), cure)


# Since 1.18 NVIDIA's runtime describes the GPUs by CDI itself, in its own words; these are those of 1.20.
MODIFIER = (
    "failed to create shim task: OCI runtime create failed: could not apply required modification to OCI "
    "specification: error modifying OCI spec: failed to create the automatic CDI modifier: failed to generate CDI "
    'spec for mode "auto": failed to construct device spec generators: {}: unknown'
)
DIRECTLY = (
    "OCI runtime create failed: runc create failed: unable to start container process: error during container init: "
    "error running prestart hook #0: exit status 1, stderr: invoking the NVIDIA Container Runtime Hook directly (e.g. "
    "specifying the docker --gpus flag) is not supported. Please use the NVIDIA Container Runtime (e.g. specify the "
    "--runtime=nvidia flag) instead: unknown"
)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (MODIFIER.format("failed to initialize NVML: Driver Not Loaded"), "that nvidia-smi works"),
        (MODIFIER.format("failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"), "that nvidia-smi works"),
        (MODIFIER.format("failed to initialize NVML: Unknown Error"), "that nvidia-smi works"),
        (MODIFIER.format("failed to initialize NVML: Driver/library version mismatch"), "restart this"),
        (MODIFIER.format("failed to get device handle from index: Invalid Argument"), "nvidia-smi -L"),
        (MODIFIER.format("failed to get device handle from UUID: Not Found"), "nvidia-smi -L"),
        (DIRECTLY, "--set-as-default"),
    ],
)
def test_todays_toolkit_says_the_same_in_other_words(words: str, cure: str) -> None:
    check_cure(words, cure)


def check_cure(words: str, cure: str) -> None:
    told = gpus.refusal(DOCKER, host(), words)
    assert told is not None
    assert (told.field, told.value, told.transient) == ("instance_type", "lab.gpu", False)
    assert cure in told.cure
    assert "Install nvidia-container-toolkit" not in told.cure


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (host(gpus=0), 'could not select device driver "" with capabilities: [[gpu]]'),
        (host(), "no space left on device"),
        (host(), "OCI runtime create failed: container_linux.go:380: starting container process: permission denied"),
        (host(), "driver failed programming external connectivity on endpoint"),
    ],
)
def test_words_about_another_thing_are_left_as_they_are(plan: HostSpec, words: str) -> None:
    assert gpus.refusal(DOCKER, plan, words) is None
