"""Facts of machines from their last answers, stored on this machine's disk for instance types and the doctor."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jupyter_smx.engines.remote.placement import MACHINE_OPTION
from jupyter_smx.model.spec.instance import InstanceType

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.remote.machine import MachineOptions

_GIB = 2**30


class MachineGpu(Struct, frozen=True):
    """A GPU by its unique id, and the name of its model."""

    id: str
    name: str


class MachineFacts(Struct, frozen=True, kw_only=True):
    """Facts that a machine reported; sizes in bytes, ``uv`` is a path or "", ``hosts`` counts running ones.

    ``usage`` is the size of ``root`` by kind; ``is_usage_partial`` is True if the time was too short to count all.
    """

    host_name: str = ""
    platform: str = ""
    cpus: int = 0
    memory: int = 0
    gpus: tuple[MachineGpu, ...] = ()
    python: str = ""
    python_version: str = ""
    uv: str = ""
    address: str = ""
    root: str = ""
    disk_free: int = 0
    disk_total: int = 0
    limits: str = ""
    hosts: int = 0
    usage: dict[str, int] = {}
    is_usage_partial: bool = False


class FactsStore:
    """One file for each machine, and a copy in memory. Errors of the disk mean that the facts are unknown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, MachineFacts | None] = {}

    def read(self, machine: str) -> MachineFacts | None:
        """Return the last facts of a machine, None if there are none."""
        if machine not in self._known:
            found = None
            with suppress(OSError, msgspec.MsgspecError):
                found = msgspec.json.decode(self._path(machine).read_bytes(), type=MachineFacts)
            self._known[machine] = found
        return self._known[machine]

    def write(self, machine: str, facts: MachineFacts) -> None:
        """Store the facts of a machine."""
        if self._known.get(machine) == facts:
            return
        self._known[machine] = facts
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path(machine).write_bytes(msgspec.json.encode(facts))

    def _path(self, machine: str) -> Path:
        return self._folder / f"{machine.replace('/', '%2F')}.json"


def instance_type(machine: str, options: MachineOptions, facts: MachineFacts | None) -> InstanceType | None:
    """Return the instance type of a whole machine, with its name; None while its size is unknown. Pure."""
    known = facts or MachineFacts()
    cpus = options.cpus or known.cpus
    if not cpus:
        return None
    try:
        return msgspec.convert(
            {
                "name": machine,
                "vcpus": cpus,
                "memory_gib": options.memory_gib or round(known.memory / _GIB, 1),
                "gpus": len(options.gpus or known.gpus),
                "options": {MACHINE_OPTION: machine},
            },
            InstanceType,
        )
    except msgspec.ValidationError:
        return None  # an alias with an @ or a colon is no name of a type
