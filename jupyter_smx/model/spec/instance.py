"""Instance types, their catalogue, and groups of instances: resources and price of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.catalogue_file import read_rows
from jupyter_smx.model.spec.type_names import suggest_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOMOGENEOUS = "homogeneousCluster"
"""Name that SageMaker uses for the only group of a plain job."""


class InstanceType(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the catalogue.

    ``vcpus`` counts virtual CPUs, ``memory_gib`` is GiB (0: the share of the machine that its CPUs have), ``gpus``
    counts devices, ``price_per_hour`` is US dollars for one instance (on demand, training, us-east-1), ``None`` if no
    source is known. ``source`` is that of the price, ``hardware_source`` of the rest. ``options`` are for the engine,
    by its own names, as a scheduler's partition.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
    vcpus: Annotated[int, Meta(ge=1, le=100_000)]
    memory_gib: Annotated[float, Meta(ge=0, le=1_000_000)]
    gpus: Annotated[int, Meta(ge=0, le=10_000)] = 0
    price_per_hour: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    source: str = ""
    hardware_source: str = ""
    options: dict[str, str] = {}


class InstanceGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name, instance type and count of equal hosts; a plain job has one, ``homogeneousCluster``.

    ``until`` names the group that this one helps. When all hosts of that group have ended, the controller stops the
    hosts of this one, and their end is no failure. SageMaker has no such feature.
    """

    name: str = HOMOGENEOUS
    instance_type: str = "local"
    instance_count: int = 1
    until: str = ""


def groups_by_host(groups: Iterable[InstanceGroup]) -> dict[str, InstanceGroup]:
    """Name the hosts of all groups, ``algo-1 … algo-N`` in the groups' order as SageMaker numbers them, with theirs."""
    owners = [group for group in groups for _ in range(group.instance_count)]
    return {f"algo-{number}": group for number, group in enumerate(owners, 1)}


def leader_of(groups: Iterable[InstanceGroup]) -> str:
    """Return the host that represents a job: the first one that helps no other."""
    hosts = groups_by_host(groups)
    return next((name for name, group in hosts.items() if not group.until), next(iter(hosts)))


class TypesListing(Struct, frozen=True, kw_only=True):
    """The types that a job may request; ``file`` is their source, empty for the package's own.

    ``engines`` has the types of engines for their own jobs, by the engine's name.
    """

    instance_types: tuple[InstanceType, ...] = ()
    file: str = ""
    engines: dict[str, tuple[InstanceType, ...]] = {}

    def names(self) -> list[str]:
        """Name each type once, those of the catalogue first."""
        every = (self.instance_types, *self.engines.values())
        return list(dict.fromkeys(kind.name for kinds in every for kind in kinds))


Catalogue = dict[str, InstanceType]


def catalogue() -> Catalogue:
    """Read the catalogue that ships with the package; an administrator may replace it by a trait."""
    from importlib.resources import files  # noqa: PLC0415 - it takes as long as this module, and few commands look here

    text = files("jupyter_smx.model").joinpath("instance_types.json").read_text(encoding="utf-8")
    return read_catalogue(text, "instance_types.json")


def read_catalogue(text: str, where: str) -> Catalogue:
    """Read a catalogue of instance types; ``where`` is the text's place for messages.

    :raises ValidationError: it is invalid; the text has the line and the field.
    """
    return read_rows(text, where, InstanceType)


def look_up(group: InstanceGroup, known: Catalogue) -> InstanceType:
    """Find the instance type of a group, or say which names are near.

    :raises ValidationError: no such type in the catalogue; names the option that has the type.
    """
    found = known.get(group.instance_type)
    if found is None:
        raise ValidationError(
            f"{type_option(group)}: {group.instance_type!r} is not an instance type here.",
            field="instance_type",
            value=group.instance_type,
            rule=f"There are {len(known)} types for this engine; the type local has one CPU.",
            cure=suggest_types(group.instance_type, known) or "`%smx types` lists them.",
        )
    return found


def type_option(group: InstanceGroup) -> str:
    """Name the option that gives a group its instance type, as it begins an error."""
    return "--instance-type" if group.name == HOMOGENEOUS else f"--group {group.name}"


def check_helpers(groups: Iterable[InstanceGroup]) -> None:
    """Check that each helper helps another group of the job that is no helper itself.

    :raises ValidationError: a helper of an unknown group, of itself, or of another helper.
    """
    known = {group.name: group for group in groups}
    for group in known.values():
        leader = known.get(group.until)
        if not group.until or (leader is not None and not leader.until):
            continue
        raise ValidationError(
            f"--group {group.name}: until={group.until} {_helper_problem(group, leader)}.",
            field="instance_groups",
            value=group.until,
            rule="until= names the group that this group helps. A helper cannot help another helper.",
            cure=_suggest_leader(group, known),
        )


def _helper_problem(group: InstanceGroup, leader: InstanceGroup | None) -> str:
    if leader is None:
        return "is not a group of this job"
    if leader is group:
        return "is the group itself"
    if leader.until == group.name:
        return "is a cycle: each group waits for the other to end"
    return f"is itself a helper of {leader.until}"


def _suggest_leader(group: InstanceGroup, known: Mapping[str, InstanceGroup]) -> str:
    leaders = [other.name for other in known.values() if not other.until and other is not group]
    if not leaders:
        return f"Remove ,until={group.until} from one of the groups."
    return suggest_names(group.until, leaders) or f"Use until={' or until='.join(leaders)}."
