"""Find an instance type of the catalogue for each type of SageMaker: the type itself, or one like it. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.aws.sagemaker.errors import validation_error
from jupyter_smx.model.spec.type_names import TypeName, parse_type_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LOCAL = "local"


class TypeChoice(Struct, frozen=True, kw_only=True):
    """A type of the catalogue, and a note if it is not the one of the request."""

    name: str
    note: str = ""


def requested_hosts(resources: Mapping[str, Any], where: str) -> tuple[str, int]:
    """Return the type and the number of the hosts of ``ResourceConfig`` or ``ClusterConfig``, which ``where`` names.

    Of ``InstancePreferences`` the first counts, since each type has hosts here.

    :raises AwsError: the number is none.
    """
    first = (resources.get("InstancePreferences") or [{}])[0]
    count = resources.get("InstanceCount", first.get("InstanceCount", 1))
    if count < 1:
        raise validation_error(f"{where}.InstanceCount: {count} is not a number of hosts. It is 1 or more.")
    return resources.get("InstanceType") or first.get("InstanceType") or LOCAL, count


def add_selection(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources as Describe has them: of preferences with those that were selected."""
    if not resources.get("InstancePreferences"):
        return dict(resources)
    kind, count = requested_hosts(resources, "ResourceConfig")
    return {**resources, "SelectedInstanceType": kind, "SelectedInstanceCount": count}


def choose_type(name: str, known: Collection[str]) -> TypeChoice:
    """Return the type itself, else the nearest of its family, of its kind, or ``local``.

    :raises AwsError: it has not the form of an instance type.
    """
    if name in known:
        return TypeChoice(name=name)
    parts = parse_type_name(name) if name.startswith("ml.") else None
    if parts is None:
        raise validation_error(
            f"1 validation error detected: Value '{name}' at 'resourceConfig.instanceType' failed to satisfy "
            "constraint: Member must be an instance type, for example ml.m5.xlarge."
        )
    found = _nearest(parts, known)
    return TypeChoice(name=found, note=f"Instance type {name} is not in the catalogue here: it runs as {found}.")


def _nearest(wanted: TypeName, known: Collection[str]) -> str:
    parsed = [(name, parts) for name in known if (parts := parse_type_name(name)) is not None]
    like = [row for row in parsed if row[1].kind == wanted.kind]
    if not like:
        return LOCAL

    def distance(row: tuple[str, TypeName]) -> tuple[bool, float, int, str]:
        name, parts = row
        is_other = (parts.generation, parts.variant) != (wanted.generation, wanted.variant)
        sizes = abs(math.log2(parts.size / wanted.size))
        return is_other, sizes, abs(parts.generation - wanted.generation), name

    return min(like, key=distance)[0]
