"""A folder of this machine with a record for each cluster: what is launched where, a lock, and if it was released."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from msgspec import Struct

from jupyter_smx.engines.machine import file_lock
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

_RECORD = "intention.json"
_RELEASED = "released"
_LOCK = "lock"

RecordT = TypeVar("RecordT", bound=Struct)


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


class RecordFolder(Generic[RecordT]):
    """``<folder>/<cluster>/intention.json`` and ``released``, below ``data_dir``. Methods block for a moment.

    :raises UnavailableError: of every method: the folder cannot be read or written.
    """

    def __init__(self, record: type[RecordT], data_dir: Path, folder: Path) -> None:
        self._record = record
        self._data_dir = data_dir
        self.folder = folder

    def lock(self, cluster: str) -> AbstractAsyncContextManager[bool]:
        """Allow one launch of a cluster at a time."""
        return self._lock(self.folder / cluster)

    def _lock(self, folder: Path) -> AbstractAsyncContextManager[bool]:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise self._error(problem) from problem
        return file_lock.acquire_async(folder / _LOCK)

    def read(self, cluster: str) -> RecordT | None:
        """Read where a cluster is, or was; None where it was never launched."""
        try:
            return msgspec.json.decode((self.folder / cluster / _RECORD).read_bytes(), type=self._record)
        except (FileNotFoundError, NotADirectoryError):
            self._check()
            return None
        except (OSError, msgspec.MsgspecError) as problem:
            raise self._error(problem) from problem

    def write(self, cluster: str, record: RecordT) -> None:
        """Write down where a cluster will be launched."""
        path = self.folder / cluster / _RECORD
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as problem:
            raise self._error(problem) from problem

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

    def live(self) -> dict[str, RecordT]:
        """List the clusters that were launched and not released."""
        try:
            names = [entry.name for entry in os.scandir(self.folder)]
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise self._error(problem) from problem
        found = {name: self.read(name) for name in names if not self.is_released(name)}
        return {name: record for name, record in found.items() if record is not None}

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
