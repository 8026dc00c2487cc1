"""What a host offers and costs: instance types, their catalogue, and groups of instances."""

from __future__ import annotations

import json
from importlib.resources import files

import msgspec
from msgspec import Struct

from jupyter_smx.model.errors import ValidationError, nearest

HOMOGENEOUS = "homogeneousCluster"
"""Name that SageMaker gives to the only group of a plain job."""


class InstanceType(Struct, frozen=True, kw_only=True):
    """One row of the catalogue.

    ``vcpus`` counts virtual CPUs, ``memory_gib`` is GiB, ``gpus`` counts devices, ``price_per_hour`` is US dollars
    for one instance (on demand, training, us-east-1), ``None`` where no source is known.
    """

    name: str
    vcpus: int
    memory_gib: float
    gpus: int = 0
    price_per_hour: float | None = None
    source: str = ""


class InstanceGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name, instance type and count of equal hosts; a plain job has one, ``homogeneousCluster``."""

    name: str = HOMOGENEOUS
    instance_type: str = "local"
    instance_count: int = 1


Catalogue = dict[str, InstanceType]


def catalogue() -> Catalogue:
    """Read the catalogue that ships with the package; an administrator may replace it by a trait."""
    text = files("jupyter_smx.model").joinpath("instance_types.json").read_text(encoding="utf-8")
    rows = msgspec.convert(json.loads(text), list[InstanceType])
    return {row.name: row for row in rows}


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
            cure=nearest(name, known) or "`%smx doctor` lists them.",
        )
    return found
