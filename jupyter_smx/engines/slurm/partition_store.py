"""Partitions as Slurm listed them last, on this machine's disk, so that instance types need no question."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.engines.slurm.parsers import PartitionRow

if TYPE_CHECKING:
    from pathlib import Path


class PartitionStore:
    """One file, and a copy in memory. Errors of the disk mean that the partitions are unknown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: list[PartitionRow] | None = None

    def read(self) -> list[PartitionRow]:
        """Return the partitions, none before the first answer of Slurm."""
        if self._known is None:
            self._known = []
            with suppress(OSError, msgspec.MsgspecError):
                self._known = msgspec.json.decode(self._path.read_bytes(), type=list[PartitionRow])
        return self._known

    def write(self, rows: list[PartitionRow]) -> None:
        """Store the partitions if they are others now."""
        if rows == self._known:
            return
        self._known = rows
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.write_bytes(msgspec.json.encode(rows))
