"""Read a form with ``Action=`` and write XML: the protocol of STS, IAM and of CloudWatch's older clients."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element, SubElement, tostring

from jupyter_smx.aws.protocol.values import read_epoch, read_iso, serialization_error, write_iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_FIELDS = 10_000


def parse_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form; the last one of a name counts.

    :raises AwsError: it is no form, or has too many fields.
    """
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise serialization_error("The body of the request is not a form.") from error
    return dict(pairs)


def parse_query(shape: Any, fields: dict[str, str]) -> dict[str, Any]:
    """Return the members of the fields of a form.

    :raises AwsError: a field has another type.
    """
    if shape is None:
        return {}
    return _read_structure(shape, fields, "") or {}


def _read(shape: Any, fields: dict[str, str], prefix: str) -> Any:
    if shape.type_name == "structure":
        return _read_structure(shape, fields, f"{prefix}.")
    if shape.type_name == "list":
        return _read_list(shape, fields, prefix)
    if shape.type_name == "map":
        return _read_map(shape, fields, prefix)
    if prefix not in fields:
        return None
    return _SCALARS[shape.type_name](fields[prefix])


def _read_structure(shape: Any, fields: dict[str, str], prefix: str) -> dict[str, Any] | None:
    members = {}
    for name, member in shape.members.items():
        key = f"{prefix}{_member_key(name, member)}"
        if any(field == key or field.startswith(f"{key}.") for field in fields):
            value = _read(member, fields, key)
            if value is not None:
                members[name] = value
    return members or None


def _member_key(name: str, member: Any) -> str:
    """Return a member's key as botocore's serializer writes it."""
    return str(member.serialization.get("name", name))


def _read_list(shape: Any, fields: dict[str, str], prefix: str) -> list[Any]:
    if prefix in fields and not fields[prefix]:
        return []
    flat = shape.serialization.get("flattened")
    word = shape.member.serialization.get("name", "" if flat else "member")
    if flat and word:
        prefix = f"{prefix.rpartition('.')[0]}.{word}".removeprefix(".")
    elif word:
        prefix = f"{prefix}.{word}"
    return [_read(shape.member, fields, f"{prefix}.{number}") for number in _numbers(fields, prefix)]


def _read_map(shape: Any, fields: dict[str, str], prefix: str) -> dict[str, Any]:
    base = prefix if shape.serialization.get("flattened") else f"{prefix}.entry"
    key = shape.key.serialization.get("name", "key")
    value = shape.value.serialization.get("name", "value")
    return {
        fields.get(f"{base}.{number}.{key}", ""): _read(shape.value, fields, f"{base}.{number}.{value}")
        for number in _numbers(fields, base)
    }


def _numbers(fields: dict[str, str], prefix: str) -> Iterator[int]:
    """Return the numbers that follow ``prefix``, in order."""
    start = f"{prefix}."
    words = {field[len(start) :].partition(".")[0] for field in fields if field.startswith(start)}
    yield from sorted(int(word) for word in words if word.isascii() and word.isdigit())


def _read_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise serialization_error(f"{text[:64]!r} is not an integer") from error


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise serialization_error(f"{text[:64]!r} is not a number") from error


def _read_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise serialization_error(f"{text[:64]!r} is neither true nor false")
    return text == "true"


def _read_blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise serialization_error("A blob is not base64") from error


def _read_timestamp(text: str) -> datetime:
    return read_epoch(float(text)) if text.replace(".", "", 1).isdecimal() else read_iso(text)


_SCALARS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "character": str,
    "integer": _read_integer,
    "long": _read_integer,
    "float": _read_float,
    "double": _read_float,
    "boolean": _read_boolean,
    "blob": _read_blob,
    "timestamp": _read_timestamp,
}


def format_xml(operation: Any, members: dict[str, Any], request_id: str) -> bytes:
    """Return the body of an answer: the result in its wrapper, and the ID of the request."""
    root = Element(f"{operation.name}Response", xmlns=operation.service_model.metadata.get("xmlNamespace", ""))
    shape = operation.output_shape
    if shape is not None:
        wrapper = shape.serialization.get("resultWrapper")
        parent = SubElement(root, wrapper) if wrapper else root
        _write_members(parent, shape, members)
    SubElement(SubElement(root, "ResponseMetadata"), "RequestId").text = request_id
    body: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return body


def _write_members(parent: Element, shape: Any, members: dict[str, Any]) -> None:
    for name, value in members.items():
        member = shape.members.get(name)
        if member is not None and value is not None:
            _write(parent, member.serialization.get("name", name), member, value)


def _write(parent: Element, name: str, shape: Any, value: Any) -> None:
    if shape.type_name == "structure":
        _write_members(SubElement(parent, name), shape, value)
    elif shape.type_name == "list":
        _write_list(parent, name, shape, value)
    elif shape.type_name == "map":
        _write_map(parent, name, shape, value)
    else:
        SubElement(parent, name).text = _format_scalar(value)


def _write_list(parent: Element, name: str, shape: Any, value: list[Any]) -> None:
    if shape.serialization.get("flattened"):
        word = shape.member.serialization.get("name", name)
    else:
        parent, word = SubElement(parent, name), shape.member.serialization.get("name", "member")
    for item in value:
        _write(parent, word, shape.member, item)


def _write_map(parent: Element, name: str, shape: Any, value: dict[str, Any]) -> None:
    if not shape.serialization.get("flattened"):
        parent, name = SubElement(parent, name), "entry"
    for key, item in value.items():
        entry = SubElement(parent, name)
        SubElement(entry, shape.key.serialization.get("name", "key")).text = key
        _write(entry, shape.value.serialization.get("name", "value"), shape.value, item)


def _format_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return write_iso(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
