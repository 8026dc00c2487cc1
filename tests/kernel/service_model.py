"""SageMaker's own model of its API, as botocore ships it: what an answer or a request may hold."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

# It comes with s3fs, which the tests need anyway.
import botocore.session
import botocore.validate

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "boolean": bool,
    "timestamp": datetime,
}


@cache
def service() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


def answer(operation: str) -> Any:
    return service().operation_model(operation).output_shape


def request(operation: str) -> Any:
    return service().operation_model(operation).input_shape


def refused(operation: str, asked: dict[str, Any]) -> str:
    """Say what botocore itself has against a request, "" where it would send it."""
    report = botocore.validate.ParamValidator().validate(asked, request(operation))
    return str(report.generate_report())


def breaches(shape: Any, value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Give each place of a value that the model does not allow, with the rule that stands against it."""
    kind = shape.type_name
    if kind == "structure":
        yield from _of_structure(shape, value, place)
    elif kind == "list":
        yield from _of_range(shape, len(value), place)
        for number, each in enumerate(value):
            yield from breaches(shape.member, each, f"{place}[{number}]")
    elif kind == "map":
        yield from _of_range(shape, len(value), place)
        for name, each in value.items():
            yield from breaches(shape.key, name, f"{place}.{name}")
            yield from breaches(shape.value, each, f"{place}.{name}")
    else:
        yield from _of_scalar(shape, value, place)


def _of_structure(shape: Any, value: Any, place: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{place}.{name}", "required") for name in shape.required_members if name not in value)
    for name, each in value.items():
        member = shape.members.get(name)
        if member is None:
            yield f"{place}.{name}", "no member"
        else:
            yield from breaches(member, each, f"{place}.{name}")


def _of_range(shape: Any, size: float, place: str) -> Iterator[tuple[str, str]]:
    known = shape.metadata
    if not known.get("min", size) <= size <= known.get("max", size):
        yield place, f"{size} is not in {known.get('min')}…{known.get('max')}"


def _of_scalar(shape: Any, value: Any, place: str) -> Iterator[tuple[str, str]]:
    kind, known = shape.type_name, shape.metadata
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield place, f"{value!r} is no {kind}"
        return
    if kind == "timestamp" and value.tzinfo is None:
        yield place, "no time zone"
    if kind == "string":
        yield from _of_range(shape, len(value), place)
        if "enum" in known and value not in known["enum"]:
            yield place, f"{value} is not in the enum"
        if "pattern" in known and not re.fullmatch(known["pattern"], value, re.DOTALL):
            yield place, f"{value} does not match"
    elif kind in ("integer", "long"):
        yield from _of_range(shape, value, place)
