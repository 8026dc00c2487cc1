"""GPUs of a host: the request to the daemon, and the error if the daemon cannot provide them. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.docker.daemon.error_patterns import ErrorPattern, first_match
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

_PODMAN_SINCE = (5, 4)
_CDI = "nvidia.com/gpu="
_ALL = "all"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_GPU = re.compile(
    r"could not select device driver|gpu vendor|nvidia.container|cdi (device|modifier)|unknown device", re.IGNORECASE
)
"""Messages of daemons whose machine or toolkit has no such GPU; they come when a container starts."""


def visible_gpus(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name the GPUs that this process sees, in its order, where that is not all of them as they are numbered."""
    return tuple(filter(None, (word.strip() for word in environ.get(_VISIBLE, "").split(","))))


def device_request(kind: DaemonInfo, devices: Sequence[int], seen: Sequence[str]) -> dict[str, Any]:
    """Return the request for the GPUs of one host, by number or by the names that this process was given.

    Never by count: Docker would then take the first ones, the same for each host.
    """
    names = [seen[number] if number < len(seen) else str(number) for number in devices] or [_ALL]
    if kind.podman:
        return {"Driver": "cdi", "DeviceIDs": [f"{_CDI}{name}" for name in names]}
    which: dict[str, Any] = {"DeviceIDs": names} if devices else {"Count": -1}
    return {"Driver": "", **which, "Capabilities": [["gpu"]]}


def check(kind: DaemonInfo, request: ClusterRequest) -> None:
    """Refuse a request that the daemon would accept and ignore.

    :raises RefusedError: GPUs from a Podman that provides none.
    """
    wish = next((host for host in request.hosts if host.gpus), None)
    if wish is not None and kind.podman and kind.podman < _PODMAN_SINCE:
        version = ".".join(map(str, kind.podman))
        raise RefusedError(
            f"instance_type: Podman {version} does not give GPUs to containers.",
            field="instance_type",
            value=wish.instance_type,
            rule="Podman's API supports GPUs from version 5.4 on, with NVIDIA's CDI.",
            cure="Use a newer Podman or Docker, or an instance type without GPUs.",
        )


_TOOLKIT = ErrorPattern(
    (),
    "Only NVIDIA GPUs are supported, and the daemon needs NVIDIA's container toolkit.",
    "Install nvidia-container-toolkit, {toolkit}; or use an instance type without GPUs.",
)
_REASONS = (
    ErrorPattern(
        (r"hook directly .* is not supported",),
        "NVIDIA's toolkit is configured for its own runtime, which is not the daemon's default.",
        "Repeat its setup with --set-as-default: {toolkit}.",
    ),
    ErrorPattern(
        (r"requirement error|unsatisfied condition",),
        "An image declares the CUDA version, and so the driver, that it needs.",
        "Use an image for an older CUDA, or update NVIDIA's driver on this machine; nvidia-smi shows its version.",
    ),
    ErrorPattern(
        (r"version mismatch",),
        "NVIDIA's kernel driver and its libraries must have the same version.",
        "The driver was updated while in use: restart this machine.",
    ),
    ErrorPattern(
        (r"driver not loaded|load library failed|nvml error|failed to initialize nvml|cannot find .*nvidia",),
        "Containers use this machine's driver, so it must work on the machine.",
        "Install or load NVIDIA's driver, and check that nvidia-smi works on this machine.",
    ),
    ErrorPattern(
        (r"device error: .*unknown device", r"failed to get device handle"),
        "Hosts get the GPUs that the controller sees, with this machine's GPU numbers.",
        "Compare nvidia-smi -L with the GPUs in jupyter smx doctor, and with CUDA_VISIBLE_DEVICES.",
    ),
)


def refusal(kind: DaemonInfo, plan: HostSpec, words: str) -> RefusedError | None:
    """Return the error of a daemon without GPUs, if its message means that; else None.

    The answer is always the same, so the request is not repeated.
    """
    if not plan.gpus or not _NO_GPU.search(words):
        return None
    reason = first_match(_REASONS, words) or _TOOLKIT
    return RefusedError(
        f"instance_type: {kind.name} cannot give GPUs to hosts of {plan.instance_type} ({words.strip().rstrip('.')}).",
        field="instance_type",
        value=plan.instance_type,
        rule=reason.rule,
        cure=reason.cure.format(toolkit=_toolkit_setup(kind)),
    )


def _toolkit_setup(kind: DaemonInfo) -> str:
    """Return the instruction to configure the toolkit in a daemon."""
    if kind.podman:
        return "regenerate /etc/cdi/nvidia.yaml with nvidia-ctk cdi generate, and check it with nvidia-ctk cdi list"
    if kind.is_rootless:
        # It may not change which devices a control group lets through.
        return (
            "run nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json, as root "
            "nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups, and restart Docker"
        )
    return "run nvidia-ctk runtime configure --runtime=docker, and restart Docker"
