"""Which kind of daemon it is, by what it says of itself: whose rights it has, and what it can limit.

Podman answers at its compatible socket in Docker's words, and in some of them it means less.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.engines.base import ClusterRequest

_LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "cpu", "PidsLimit": "pids"}
"""What ``docker info`` says of limits, and in our words."""
_WORDS = {"cpu": "CPU", "pids": "processes"}
_UNTOLD = ',"\n\r'
"""What Podman takes for its own in the path of a mount, whose parts it joins by commas."""
_GPUS_SINCE = (5, 4)


class Kind(Struct, frozen=True):
    """One kind of daemon. ``unlimited`` has ``cpu``, ``memory``, ``swap`` and ``pids`` where it cannot limit them."""

    is_rootless: bool = False
    podman: tuple[int, ...] = ()
    """Its version; empty for Docker."""
    unlimited: tuple[str, ...] = ()
    reason: str = ""
    """Why, in words that end a sentence."""

    @property
    def name(self) -> str:
        """Give what people call it."""
        return "Podman" if self.podman else "Docker"

    def words(self) -> str:
        """Say for people what it is."""
        version = ".".join(map(str, self.podman))
        return f"{self.name} {version}".strip() + (", without root's rights" if self.is_rootless else "")

    def limits(self, what: str) -> bool:
        """Say whether it can limit this."""
        return what not in self.unlimited

    def lacks(self) -> str:
        """Name for people what it cannot limit."""
        return ", ".join(_WORDS.get(what, what) for what in self.unlimited)

    def gpus(self) -> dict[str, Any]:
        """Ask for all GPUs: which ones a job has is decided for each job, and told to it as on this machine itself."""
        if self.podman:
            return {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}
        return {"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}


def read(info: Mapping[str, Any]) -> Kind:
    """Learn it from the daemon's answer to ``docker info``."""
    # Podman 4 has a field of its own for it.
    is_rootless = bool(info.get("Rootless")) or any("rootless" in option for option in security(info))
    podman = _numbers(info.get("ServerVersion")) or (0,) if "BuildahVersion" in info else ()
    version = str(info.get("CgroupVersion") or 1)
    unlimited = tuple(word for field, word in _LIMITS.items() if not info.get(field, True))
    reason = f"the daemon has no control group for that (version {version})"
    # Of these two Podman tells what the machine could do, and does nothing of it.
    if is_rootless and version == "1":
        unlimited, reason = tuple(_LIMITS.values()), "the daemon is not root, and control groups version 1 are root's"
    elif is_rootless and podman and info.get("CgroupDriver") != "systemd":
        unlimited, reason = tuple(_LIMITS.values()), "Podman that is not root limits nothing without systemd"
    return Kind(is_rootless=is_rootless, podman=podman, unlimited=unlimited, reason=reason)


def security(info: Mapping[str, Any]) -> list[str]:
    """Give what the daemon says of how it closes containers in, and itself."""
    told = info.get("SecurityOptions")
    return [str(option) for option in told] if isinstance(told, list) else []


def check(kind: Kind, url: str, data_dir: str, uid: int) -> None:
    """Refuse a daemon that cannot share folders with this process.

    :raises RefusedError: it has other rights than we, or cannot mount the data folder.
    """
    if kind.is_rootless and uid == 0:
        raise RefusedError(
            f"docker_host: {kind.name} at {url} runs without root's rights, and the controller is root.",
            field="docker_host",
            value=url,
            rule="Hosts share folders with the controller, and that daemon may not enter root's.",
            cure="Run the controller as the user whose daemon it is, or name root's with DockerEngine.docker_host.",
        )
    if kind.podman and not set(_UNTOLD).isdisjoint(data_dir):
        raise RefusedError(
            f"data_dir: Podman cannot mount {data_dir!r}.",
            field="data_dir",
            value=data_dir,
            rule="At its socket the path of a mount has no comma, no double quote and no line break.",
            cure="Name another folder with DockerEngine.data_dir, or use Docker.",
        )


def check_request(kind: Kind, request: ClusterRequest) -> None:
    """Refuse what the daemon would take and not do.

    :raises RefusedError: GPUs from a Podman that gives none.
    """
    if kind.podman and kind.podman < _GPUS_SINCE and any(host.gpus for host in request.hosts):
        version = ".".join(map(str, kind.podman))
        raise RefusedError(
            f"instance_type: Podman {version} gives containers no GPU.",
            field="instance_type",
            value=next(host.instance_type for host in request.hosts if host.gpus),
            rule="At its socket it gives GPUs from version 5.4 on, by NVIDIA's CDI, and none before.",
            cure="Use a newer Podman or Docker, or an instance type without GPUs.",
        )


def program(url: str) -> list[str]:
    """Give how to begin a command for this daemon: with Docker's own program, or Podman's where there is only that."""
    if shutil.which("docker") is None and shutil.which("podman") is not None:
        return ["podman", "--remote", f"--url={url}"]
    return ["docker", f"--host={url}"]


def _numbers(version: object) -> tuple[int, ...]:
    head = str(version or "").partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in head.split(".") if part.isdecimal())
