"""A record for each cluster on this machine: the machines of its hosts, written before their launch.

A release then needs only those machines, and the id of a released cluster is refused even if its machine forgot it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.machine import file_lock
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import HostHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

_INTENTION = "intention.json"
_RELEASED = "released"
_LOCK = "lock"


class Intention(Struct, frozen=True):
    """Planned launch: for each host, in the job's order, its machine, and its number of GPUs."""

    places: dict[str, str]
    gpus: dict[str, int] = {}

    def machines(self) -> list[str]:
        """Name each machine once."""
        return list(dict.fromkeys(self.places.values()))

    def without(self, host: str) -> Intention:
        """Return the plan without a host of which nothing was launched."""
        return replace(self, places={name: place for name, place in self.places.items() if name != host})

    def use_of(self, machine: str) -> tuple[int, int]:
        """Count the hosts on a machine, and the GPUs that they take."""
        hosts = [host for host, place in self.places.items() if place == machine]
        return len(hosts), sum(self.gpus.get(host, 0) for host in hosts)


def place_of(host: HostHandle | None) -> str:
    """Name the machine of a host; "" where it is on none."""
    return "" if host is None else str(host.data.get("machine", ""))


def host_handle(host: str, machine: str, answer: Mapping[str, Any]) -> HostHandle:
    """Describe a host as its machine reported it."""
    kept = ("pid", "start_time", "boot_id", "socket")
    return HostHandle(host=host, machine=machine, data={"machine": machine, **{name: answer[name] for name in kept}})


def read_id(path: Path, new_id: Callable[[], str]) -> str:
    """Read the id in a file, which is created on the first call.

    :raises UnavailableError: it can be neither read nor written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError), path.open("x", encoding="ascii") as file:
            file.write(new_id())
        return path.read_text(encoding="ascii")
    except OSError as problem:
        raise UnavailableError(
            f"data_dir: {path} cannot be used ({problem}).", field="data_dir", value=path, transient=True
        ) from problem


class ClusterRegister:
    """``<folder>/<cluster>/intention.json`` and ``released``, below ``data_dir``. Methods block for a moment.

    :raises UnavailableError: of every method: the folder cannot be read or written.
    """

    def __init__(self, data_dir: Path, folder: Path) -> None:
        self._data_dir = data_dir
        self.folder = folder

    def lock(self, cluster: str) -> AbstractAsyncContextManager[bool]:
        """Allow one launch of a cluster at a time."""
        return self._lock(self.folder / cluster)

    def placement_lock(self) -> AbstractAsyncContextManager[bool]:
        """Allow one launch at a time to read and take free resources; send no requests to machines meanwhile."""
        return self._lock(self.folder.parent)

    def _lock(self, folder: Path) -> AbstractAsyncContextManager[bool]:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise self._error(problem) from problem
        return file_lock.acquire_async(folder / _LOCK)

    def read(self, cluster: str) -> Intention | None:
        """Read where a cluster is, or was; None where it was never launched."""
        try:
            return msgspec.json.decode((self.folder / cluster / _INTENTION).read_bytes(), type=Intention)
        except (FileNotFoundError, NotADirectoryError):
            self._check()
            return None
        except (OSError, msgspec.MsgspecError) as problem:
            raise self._error(problem) from problem

    def write(self, cluster: str, intention: Intention) -> None:
        """Write down where a cluster will be launched."""
        path = self.folder / cluster / _INTENTION
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(intention))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as problem:
            raise self._error(problem) from problem

    def leave_out(self, cluster: str, host: str) -> None:
        """Record that nothing of a host was launched, so that a release does not need its machine."""
        intention = self.read(cluster)
        if intention is not None:
            self.write(cluster, intention.without(host))

    def is_released(self, cluster: str) -> bool:
        """Return True if a cluster was released."""
        return (self.folder / cluster / _RELEASED).exists()

    def release(self, cluster: str) -> None:
        """Write down that a cluster is given back: from now on it is launched no more."""
        try:
            (self.folder / cluster).mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / cluster / _RELEASED).touch(mode=0o600)
        except OSError as problem:
            raise self._error(problem) from problem

    def live(self) -> dict[str, Intention]:
        """List the clusters that were launched and not released."""
        try:
            names = [entry.name for entry in os.scandir(self.folder)]
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise self._error(problem) from problem
        found = {name: self.read(name) for name in names if not self.is_released(name)}
        return {name: intention for name, intention in found.items() if intention is not None}

    def _check(self) -> None:
        """Raise if the disk is unavailable, which is not the same as a missing cluster."""
        try:
            self._data_dir.stat()
        except OSError as problem:
            raise self._error(problem) from problem

    def _error(self, problem: Exception) -> UnavailableError:
        return UnavailableError(
            f"data_dir: the record of clusters in {self.folder} cannot be used ({problem}).",
            field="data_dir",
            value=self.folder,
            transient=True,
        )
