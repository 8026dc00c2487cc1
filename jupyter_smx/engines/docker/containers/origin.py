"""Labels that tell the containers of one controller from those of another whose data folder has the same path.

Containers of a hub have the same path of the home, and machines with one network home have the same path of the
records. If they use one daemon, each of them must leave alone what the others made.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.controller_launch import read_records_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORDS, MACHINE = "jupyter-smx.records", "jupyter-smx.machine"
_DIGITS = 12


class Origin(Struct, frozen=True, kw_only=True):
    """Where a controller is: the ID of its records, and a hash of the name of its machine; "" if not known."""

    records: str = ""
    machine: str = ""

    def labels(self) -> dict[str, str]:
        """Return the labels of what the controller makes."""
        return {name: value for name, value in ((RECORDS, self.records), (MACHINE, self.machine)) if value}


def read_origin(folder: Path, host_name: str) -> Origin:
    """Read where the controller with this folder of records is."""
    machine = hashlib.sha256(host_name.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
    return Origin(records=read_records_id(folder), machine=machine)


def is_of_other_controller(row: Mapping[str, Any], origin: Origin) -> bool:
    """Return True if a listed object was made from other records on another machine.

    One of both may have changed: the records were deleted, or the machine has another name. What was made before there
    were these labels belongs to the data folder of its label alone.
    """
    told = row.get("Labels") or {}
    records, machine = told.get(RECORDS, ""), told.get(MACHINE, "")
    return bool(records and machine) and records != origin.records and machine != origin.machine
