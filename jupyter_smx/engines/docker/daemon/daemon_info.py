"""Properties of a daemon, from its own report: its kind, the rights of its user, and supported limits.

Podman answers at its compatible socket in Docker's terms, but some of them mean less.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "cpu", "PidsLimit": "pids"}
"""Names of limits in ``docker info``, and ours."""
_CONTROLLERS = {"memory": "memory", "swap": "memory", "cpu": "cpu", "pids": "pids"}
"""Which controller of version 2 of control groups sets which limit."""
PODMAN_INFO_PATH = "/v4.0.0/libpod/info"
"""Path of Podman's own description; every version from this one on answers there."""
_USER_SOCKET_FOLDER = "/run/user/"
"""Folder of the sockets of users' own daemons."""
_LIMIT_TEXTS = {"cpu": "CPU", "pids": "processes"}
_UNSUPPORTED_CHARACTERS = ',"\n\r'
"""Characters that Podman interprets in the path of a mount, whose parts it joins by commas."""
_ISOLATED_SINCE = (28,)
"""First version of Docker with networks that exclude the machine itself."""
_NAMES_MACHINE_SINCE = (20, 10)
"""First version of Docker with ``host-gateway``, its word for the machine's address in a container."""


class DaemonInfo(Struct, frozen=True):
    """One kind of daemon. ``unlimited``: those of ``cpu``, ``memory``, ``swap`` and ``pids`` that it cannot limit."""

    is_rootless: bool = False
    podman: tuple[int, ...] = ()
    """Its version; empty for Docker."""
    docker: tuple[int, ...] = ()
    """Docker's version; empty for Podman, and before the first request."""
    unlimited: tuple[str, ...] = ()
    reason: str = ""
    """Reason for that, as the end of a sentence."""
    is_labelled: bool = False
    """SELinux keeps its containers from all that has no label of theirs, as the folders of users have none."""

    @property
    def name(self) -> str:
        """Return its name for people."""
        return "Podman" if self.podman else "Docker"

    @property
    def program(self) -> str:
        """Return its command line program."""
        return self.name.lower()

    def start_command(self) -> str:
        """Return the command that starts it."""
        if self.podman:
            return f"systemctl {self._systemctl_scope()}start podman.socket"
        program = "dockerd-rootless.sh" if self.is_rootless else "dockerd"
        return f"{program}, or systemctl {self._systemctl_scope()}start docker"

    def _systemctl_scope(self) -> str:
        return "--user " if self.is_rootless else ""

    def description(self) -> str:
        """Return a description for people."""
        version = ".".join(map(str, self.podman))
        return f"{self.name} {version}".strip() + (", without root's rights" if self.is_rootless else "")

    def can_limit(self, what: str) -> bool:
        """Return True if it can limit this resource."""
        return what not in self.unlimited

    def missing_limits(self) -> str:
        """Name for people what it cannot limit."""
        return ", ".join(_LIMIT_TEXTS.get(what, what) for what in self.unlimited)

    def can_isolate_networks(self) -> bool:
        """Return True if an isolated network can exclude this machine, too."""
        return self.docker >= _ISOLATED_SINCE

    def can_name_machine(self) -> bool:
        """Return True if it puts the address of its machine into containers, which Podman does without a request."""
        return self.docker >= _NAMES_MACHINE_SINCE


def guess_from_url(url: str) -> DaemonInfo:
    """Take it for what the path of its socket is called, until it was asked."""
    return DaemonInfo(podman=(0,) if "podman" in url else (), is_rootless=_USER_SOCKET_FOLDER in url)


def is_podman_info_needed(info: Mapping[str, Any]) -> bool:
    """Return True if the supported limits must be read from Podman's own description.

    With version 2 of control groups its Docker API looks in the top group, which has no limits. It then denies CPU
    limits that work, and reports those that do not because systemd delegates no controller to its user.
    """
    return _is_podman(info) and str(info.get("CgroupVersion")) == "2"


def _is_podman(info: Mapping[str, Any]) -> bool:
    return "BuildahVersion" in info


def cgroup_controllers(told: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the controllers in Podman's own description, None if it has none."""
    host = told.get("host")
    found = host.get("cgroupControllers") if isinstance(host, dict) else None
    return tuple(map(str, found)) if isinstance(found, list) else None


def parse_info(info: Mapping[str, Any], has: Collection[str] | None = None) -> DaemonInfo:
    """Parse the daemon's answer to ``docker info``, and the controllers that it ``has``, if reported."""
    # Podman 4 has a field of its own for it.
    is_rootless = bool(info.get("Rootless")) or any("rootless" in option for option in security_options(info))
    numbers = _numbers(info.get("ServerVersion")) or (0,)
    podman, docker = (numbers, ()) if _is_podman(info) else ((), numbers)
    version = str(info.get("CgroupVersion") or 1)
    unlimited = tuple(word for field, word in _LIMITS.items() if not info.get(field, True))
    if has is not None:
        unlimited = tuple(word for word in _LIMITS.values() if _CONTROLLERS[word] not in has)
    reason = f"the daemon lacks a control group for it (version {version})"
    # For these two, Podman reports the machine's features, but does not use them.
    if is_rootless and version == "1":
        unlimited, reason = tuple(_LIMITS.values()), "the daemon is not root, and control groups version 1 need root"
    elif is_rootless and podman and info.get("CgroupDriver") != "systemd":
        unlimited, reason = tuple(_LIMITS.values()), "Podman without root needs systemd to limit resources"
    return DaemonInfo(
        is_rootless=is_rootless,
        podman=podman,
        docker=docker,
        unlimited=unlimited,
        reason=reason,
        is_labelled="name=selinux" in security_options(info),
    )


def security_options(info: Mapping[str, Any]) -> list[str]:
    """Return the daemon's security options, of containers and of itself."""
    told = info.get("SecurityOptions")
    return [str(option) for option in told] if isinstance(told, list) else []


def check(kind: DaemonInfo, url: str, data_dir: str, uid: int) -> None:
    """Refuse a daemon that cannot share folders with this process.

    :raises RefusedError: it has other permissions than this process, or cannot mount the data folder.
    """
    if kind.is_rootless and uid == 0:
        raise RefusedError(
            f"docker_host: {kind.name} at {url} runs without root's rights, and the controller is root.",
            field="docker_host",
            value=url,
            rule="Hosts share folders with the controller, and this daemon cannot read root's folders.",
            cure="Run the controller as the daemon's user, or set DockerEngine.docker_host to root's daemon.",
        )
    if kind.podman and not set(_UNSUPPORTED_CHARACTERS).isdisjoint(data_dir):
        raise RefusedError(
            f"data_dir: Podman cannot mount {data_dir!r}.",
            field="data_dir",
            value=data_dir,
            rule="Podman's API allows no comma, double quote or line break in the path of a mount.",
            cure="Set DockerEngine.data_dir to another folder, or use Docker.",
        )


def client_command(url: str) -> list[str]:
    """Return the beginning of a command for this daemon: Docker's own program, or Podman's if there is no other."""
    if shutil.which("docker") is None and shutil.which("podman") is not None:
        return ["podman", "--remote", f"--url={url}"]
    return ["docker", f"--host={url}"]


def _numbers(version: object) -> tuple[int, ...]:
    head = str(version or "").partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in head.split(".") if part.isdecimal())
