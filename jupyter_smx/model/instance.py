"""What a host offers and costs: instance types, their catalogue, and groups of instances."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

from msgspec import Meta, Struct

from jupyter_smx.model.catalogue_file import read_rows
from jupyter_smx.model.errors import ValidationError, nearest

HOMOGENEOUS = "homogeneousCluster"
"""Name that SageMaker gives to the only group of a plain job."""


class InstanceType(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the catalogue.

    ``vcpus`` counts virtual CPUs, ``memory_gib`` is GiB (0: the share of the machine that its CPUs have), ``gpus``
    counts devices, ``price_per_hour`` is US dollars for one instance (on demand, training, us-east-1), ``None`` where
    no source is known. ``source`` says where the price is from, ``hardware_source`` the rest.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
    vcpus: Annotated[int, Meta(ge=1, le=100_000)]
    memory_gib: Annotated[float, Meta(ge=0, le=1_000_000)]
    gpus: Annotated[int, Meta(ge=0, le=10_000)] = 0
    price_per_hour: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    source: str = ""
    hardware_source: str = ""


class InstanceGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name, instance type and count of equal hosts; a plain job has one, ``homogeneousCluster``."""

    name: str = HOMOGENEOUS
    instance_type: str = "local"
    instance_count: int = 1


class TypesListing(Struct, frozen=True, kw_only=True):
    """The types that a job may ask for; ``file`` is where they are from, empty where they ship with the package."""

    instance_types: tuple[InstanceType, ...] = ()
    file: str = ""


Catalogue = dict[str, InstanceType]


def catalogue() -> Catalogue:
    """Read the catalogue that ships with the package; an administrator may replace it by a trait."""
    text = files("jupyter_smx.model").joinpath("instance_types.json").read_text(encoding="utf-8")
    return read_catalogue(text, "instance_types.json")


def read_catalogue(text: str, where: str) -> Catalogue:
    """Read a catalogue of instance types; ``where`` is how a person finds the text again.

    :raises ValidationError: it is none; says the line and the field.
    """
    return read_rows(text, where, InstanceType)


def look_up(name: str, known: Catalogue) -> InstanceType:
    """Find an instance type by name, or say which names are near.

    :raises ValidationError: no such type in the catalogue.
    """
    found = known.get(name)
    if found is None:
        raise ValidationError(
            f"--instance-type: {name!r} is not an instance type.",
            field="instance_type",
            value=name,
            rule=f"The catalogue has {len(known)} types; local runs on a share of this machine.",
            cure=nearest(name, known) or "`%smx types` lists them.",
        )
    return found
