"""Labels that tell the containers of one controller from those of another whose data folder has the same path.

Containers of a hub have the same path of the home, and machines with one network home have the same path of the
records. If they use one daemon, each of them must leave alone what the others run.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.controller_launch import read_records_id
from jupyter_smx.data_folder.location import read_token
from jupyter_smx.engines.docker.containers.container_spec import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

RECORDS, MACHINE, HOME = "jupyter-smx.records", "jupyter-smx.machine", "jupyter-smx.home"
_DIGITS = 12
_ENDED = frozenset({"dead", "exited", "stopped"})
"""States of a container whose processes are over, of Docker and Podman."""


class Origin(Struct, frozen=True, kw_only=True):
    """Where a controller is: the ID of its records, and hashes of the name of its machine and of the token of its home.

    A network home has a token, which lasts longer than the records and the machine. "" is not known.
    """

    records: str = ""
    machine: str = ""
    home: str = ""

    def labels(self) -> dict[str, str]:
        """Return the labels of what the controller makes."""
        values = ((RECORDS, self.records), (MACHINE, self.machine), (HOME, self.home))
        return {name: value for name, value in values if value}


def read_origin(folder: Path, home: Path, host_name: str) -> Origin:
    """Read where the controller with this folder of records is; ``home`` is the data folder with its token."""
    return Origin(records=read_records_id(folder), machine=_hash(host_name), home=_home_id(home))


_home_ids: dict[Path, str] = {}


def _home_id(home: Path) -> str:
    # Read once, since each launch needs it, and a network home may answer late.
    if home not in _home_ids and (token := read_token(home)):
        _home_ids[home] = _hash(token)
    return _home_ids.get(home, "")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]


class OriginFilter:
    """Finds the listed objects that another controller made; call it for the containers of a daemon first.

    ``clusters`` are those that have a folder in this controller's records: they are its own, also if the file with the
    ID of the records was deleted. What was made before there were these labels belongs to the data folder of its label.

    Other records on this machine or of this home are deleted ones of this controller, or those of another that runs: a
    container of a hub has a new name after each start, and containers may have one fixed name. The listing does not
    tell these apart, so such containers are removed when they have ended, which their deadlines guarantee.
    """

    def __init__(self, origin: Origin, clusters: Collection[str] = ()) -> None:
        self._origin = origin
        self._clusters = clusters
        self._live_clusters: set[str] = set()

    def is_of_other(self, row: Mapping[str, Any]) -> bool:
        """Return True if a listed container or network belongs to another controller, or may do so and is in use."""
        labels = row.get("Labels") or {}
        cluster = labels.get(CLUSTER, "")
        if "State" in row and row["State"] not in _ENDED:
            self._live_clusters.add(cluster)
        home, records, machine = (labels.get(name, "") for name in (HOME, RECORDS, MACHINE))
        if home and self._origin.home and home != self._origin.home:
            return True
        if not (records and machine) or records == self._origin.records or cluster in self._clusters:
            return False
        is_near = machine == self._origin.machine or (home != "" and home == self._origin.home)
        return not is_near or cluster in self._live_clusters
