"""Read and write members as JSON 1.0 and 1.1: times are seconds since the epoch, blobs are base64."""

from __future__ import annotations

import base64
import binascii
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_smx.aws.protocol.values import read_epoch, read_iso, serialization_error, write_epoch, write_iso

if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS = (
    (bool, "BOOLEAN_VALUE"),
    (int, "NUMBER_VALUE"),
    (float, "NUMBER_VALUE"),
    (str, "STRING_VALUE"),
    (list, "a list"),
)
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def parse_json(shape: Any, body: bytes) -> dict[str, Any]:
    """Return the members of a body; members that the shape lacks are returned as they are.

    :raises AwsError: it is not JSON, or a member has another type.
    """
    try:
        document = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise serialization_error("The body of the request is not a JSON document.") from error
    _require(document, dict, "a structure")
    return document if shape is None else _read_structure(shape, document)


def _read(shape: Any, value: Any) -> Any:
    if value is None or getattr(shape, "is_document_type", False):
        return value
    return _READERS[shape.type_name](shape, value)


def _read_structure(shape: Any, value: Any) -> dict[str, Any]:
    _require(value, dict, "a structure")
    names = {member.serialization.get("name", name): name for name, member in shape.members.items()}
    members = {}
    for key, item in value.items():
        if item is not None:
            name = names.get(key)
            members[name or key] = item if name is None else _read(shape.members[name], item)
    return members


def _read_list(shape: Any, value: Any) -> list[Any]:
    _require(value, list, "a list")
    return [_read(shape.member, item) for item in value]


def _read_map(shape: Any, value: Any) -> dict[str, Any]:
    _require(value, dict, "a map")
    return {key: _read(shape.value, item) for key, item in value.items()}


def _read_string(_: Any, value: Any) -> str:
    _require(value, str, "a String")
    return str(value)


def _read_integer(_: Any, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool):
        raise _type_error(value, "an Integer")
    _require(value, int, "an Integer")
    return int(value)


def _read_float(_: Any, value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _type_error(value, "a Double")
    return float(value)


def _read_boolean(_: Any, value: Any) -> bool:
    _require(value, bool, "a Boolean")
    return bool(value)


def _read_blob(_: Any, value: Any) -> bytes:
    _require(value, str, "a Blob")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise serialization_error("A Blob is not base64") from error


def _read_timestamp(_: Any, value: Any) -> datetime:
    if isinstance(value, str):
        return read_iso(value)
    return read_epoch(_read_float(None, value))


_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "structure": _read_structure,
    "list": _read_list,
    "map": _read_map,
    "string": _read_string,
    "character": _read_string,
    "integer": _read_integer,
    "long": _read_integer,
    "float": _read_float,
    "double": _read_float,
    "boolean": _read_boolean,
    "blob": _read_blob,
    "timestamp": _read_timestamp,
}


def _require(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise _type_error(value, name)


def _type_error(value: Any, name: str) -> Exception:
    found = next((word for kind, word in _KINDS if isinstance(value, kind)), "a structure")
    return serialization_error(f"{found} can not be converted to {name}")


def format_json(shape: Any, members: dict[str, Any]) -> bytes:
    """Return the body of an answer; members that the shape lacks are written by their own type."""
    return msgspec.json.encode(_plain(_write(shape, members)))


def _write(shape: Any, value: Any) -> Any:
    """Return the document of members: names as on the wire, numbers by their shapes; times and blobs stay objects."""
    if shape is None or getattr(shape, "is_document_type", False):
        return value
    write = _WRITERS.get(shape.type_name)
    return value if write is None else write(shape, value)


def _write_list(shape: Any, value: Any) -> list[Any]:
    return [_write(shape.member, item) for item in value]


def _write_map(shape: Any, value: dict[str, Any]) -> dict[str, Any]:
    return {key: _write(shape.value, item) for key, item in value.items()}


def _write_float(_: Any, value: Any) -> float:
    return float(value)


def _write_timestamp(shape: Any, value: Any) -> Any:
    return write_iso(value) if shape.serialization.get("timestampFormat") == "iso8601" else value


def _write_structure(shape: Any, value: dict[str, Any]) -> dict[str, Any]:
    written, members = {}, shape.members
    for name, item in value.items():
        if item is not None:
            member = members.get(name)
            key = name if member is None else member.serialization.get("name", name)
            written[key] = _write(member, item)
    return written


_WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "structure": _write_structure,
    "list": _write_list,
    "map": _write_map,
    "float": _write_float,
    "double": _write_float,
    "timestamp": _write_timestamp,
}
"""By the type of a shape; values of the other types stay as they are."""
_AS_IT_IS = frozenset((str, int, bool, type(None)))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if type(value) in _AS_IT_IS:  # most of an answer
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return write_epoch(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _plain_float(value) if isinstance(value, float) else value


def _plain_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
