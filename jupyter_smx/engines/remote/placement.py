"""Choose the machine of each host of a cluster; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError, ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.engines.base import HostSpec

MACHINE_OPTION = "machine"
"""Option of an instance type that names the machine of its hosts."""


class MachineRoom(Struct, frozen=True):
    """Total and free resources of a machine; None if unknown.

    ``unreachable`` is the reason why no host can be placed there now.
    """

    total_slots: int | None = None
    slots: int | None = None
    total_gpus: int | None = None
    gpus: int | None = None
    unreachable: str = ""

    def fits(self, host: HostSpec) -> bool:
        """Return True if a host fits on the machine now, as far as that is known."""
        has_room = (self.slots is None or self.slots > 0) and (self.gpus is None or self.gpus >= host.gpus)
        return has_room and not self.unreachable

    def less(self, host: HostSpec) -> MachineRoom:
        """Return the resources that are left after a host."""
        return replace(
            self,
            slots=None if self.slots is None else self.slots - 1,
            gpus=None if self.gpus is None else self.gpus - host.gpus,
        )


def place_hosts(hosts: Sequence[HostSpec], rooms: Mapping[str, MachineRoom]) -> dict[str, str]:
    """Return for each host the reachable machine with the most room.

    Of machines with equal room, take the first one in the configuration.

    :raises RefusedError: there is no room now (transient; the text names machines that do not answer), or never: more
        hosts than slots, or too few GPUs.
    :raises ValidationError: an instance type is of a machine that the engine has not.
    """
    totals = [room.total_slots for room in rooms.values() if room.total_slots is not None]
    if len(totals) == len(rooms) and sum(totals) < len(hosts):
        raise RefusedError(
            f"--instance-count: {len(hosts)} hosts, and {_words(rooms)} can have {sum(totals)} at once.",
            field="instance_count",
            value=len(hosts),
            cure="Use fewer hosts, or set more slots in the configuration of the machine.",
        )
    left = dict(rooms)
    found = {}
    for host in hosts:
        name = _choose(host, left)
        left[name] = left[name].less(host)
        found[host.host] = name
    return found


def _choose(host: HostSpec, rooms: Mapping[str, MachineRoom]) -> str:
    wanted = host.options.get(MACHINE_OPTION, "")
    if wanted and wanted not in rooms:
        raise ValidationError(
            f"--instance-type: {host.instance_type} is a type of the machine {wanted!r}, which this engine has not.",
            field="instance_type",
            value=host.instance_type,
            rule=f"Machines of this engine: {', '.join(rooms)}.",
            cure=suggest_names(wanted, rooms),
        )
    candidates = {name: room for name, room in rooms.items() if wanted in ("", name) and room.fits(host)}
    where = wanted or _words(rooms)
    possible = [room.total_gpus for name, room in rooms.items() if wanted in ("", name)]
    if all(total is not None and total < host.gpus for total in possible):
        raise RefusedError(
            f"--instance-type: {host.instance_type} has {host.gpus} GPUs, and {where} has not so many in one machine.",
            field="instance_type",
            value=host.instance_type,
            cure="Use a type with fewer GPUs, or another machine.",
        )
    if not candidates:
        raise _no_room(host, where, [room for name, room in rooms.items() if wanted in ("", name)])
    return max(candidates, key=lambda name: _preference(candidates[name]))


def _no_room(host: HostSpec, where: str, rooms: Sequence[MachineRoom]) -> RefusedError:
    silent = [room.unreachable for room in rooms if room.unreachable]
    answering = [room for room in rooms if not room.unreachable]
    what = "GPU" if any(room.slots is None or room.slots > 0 for room in answering) else "slot"
    return RefusedError(
        f"No {what} of {where} is free." if answering else silent[0],
        field="instance_type",
        value=host.instance_type,
        rule=" ".join(silent if answering else silent[1:]),
        cure=f"The job starts when {'another one ends' if answering else ''}"
        f"{' or ' if answering and silent else ''}{'the machine answers' if silent else ''}.",
        transient=True,
    )


def _words(rooms: Mapping[str, MachineRoom]) -> str:
    return next(iter(rooms)) if len(rooms) == 1 else f"the {len(rooms)} machines of this engine"


def _preference(room: MachineRoom) -> tuple[float, float]:
    unknown = float("inf")
    slots = unknown if room.slots is None else room.slots
    return slots, unknown if room.gpus is None else room.gpus
