"""Check the members of a request by their shapes, and word what is wrong as AWS does: all of it in one error."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import regex

from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODES = {"sagemaker": "ValidationException", "logs": "InvalidParameterException"}
_OTHER_CODE = "ValidationError"
_PATTERN_LIMIT = 1.0
"""Seconds for a value and its pattern; a pattern of a model may backtrack."""
_MAX_SHOWN = 1024
"""Characters of a value in an error."""

_LENGTH = "Member must have length {} than or equal to {}"
_VALUE = "Member must have value {} than or equal to {}"
_NUMBERS = ("integer", "long", "float", "double")


def validation_code(service: str) -> str:
    """Return the code of an invalid request; each service has its own."""
    return _CODES.get(service, _OTHER_CODE)


def check_members(service: str, shape: Any, members: dict[str, Any]) -> None:
    """Check the members of a request; members that the shape lacks pass.

    :raises AwsError: names each member with its value and the constraint.
    """
    if shape is None:
        return
    found = list(_structure_violations(shape, members, ""))
    if found:
        word = "error" if len(found) == 1 else "errors"
        raise AwsError(validation_code(service), f"{len(found)} validation {word} detected: {'; '.join(found)}")


def _structure_violations(shape: Any, members: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, member in shape.members.items():
        path = f"{prefix}{name[:1].lower()}{name[1:]}"
        value = members.get(name)
        if value is not None:
            yield from _violations(member, value, path)
        elif name in shape.required_members:
            yield _sentence("null", path, "Member must not be null")


def _violations(shape: Any, value: Any, path: str) -> Iterator[str]:
    if getattr(shape, "is_document_type", False):
        return
    if value is None:
        yield _sentence("null", path, "Member must not be null")
        return
    for constraint in _broken_constraints(shape, value):
        yield _sentence(f"'{_format(value)[:_MAX_SHOWN]}'", path, constraint)
    if shape.type_name == "structure":
        yield from _structure_violations(shape, value, f"{path}.")
    elif shape.type_name == "list":
        for number, item in enumerate(value, 1):
            yield from _violations(shape.member, item, f"{path}.{number}.member")
    elif shape.type_name == "map":
        yield from _map_violations(shape, value, path)


def _map_violations(shape: Any, value: dict[str, Any], path: str) -> Iterator[str]:
    keys = [constraint for key in value for constraint in _broken_constraints(shape.key, key)]
    if keys:
        yield _sentence(
            f"'{_format(value)[:_MAX_SHOWN]}'",
            path,
            f"Map keys must satisfy constraint: [{', '.join(dict.fromkeys(keys))}]",
        )
    for key, item in value.items():
        if shape.value.type_name in ("structure", "list", "map"):
            yield from _violations(shape.value, item, f"{path}.{key}.member")
        elif broken := list(_broken_constraints(shape.value, item)):
            shown = f"'{_format(value)[:_MAX_SHOWN]}'"
            yield _sentence(shown, path, f"Map value must satisfy constraint: [{', '.join(broken)}]")


def _sentence(value: str, path: str, constraint: str) -> str:
    return f"Value {value} at '{path}' failed to satisfy constraint: {constraint}"


def _broken_constraints(shape: Any, value: Any) -> Iterator[str]:
    metadata = shape.metadata
    if shape.type_name in _NUMBERS:
        yield from _broken_bounds(metadata, value, _VALUE)
        return
    if shape.type_name == "string":
        if metadata.get("enum") and value not in metadata["enum"]:
            yield f"Member must satisfy enum value set: [{', '.join(metadata['enum'])}]"
            return
        yield from _broken_bounds(metadata, len(value), _LENGTH)
        # A value that is too long needs no search.
        if (
            len(value) <= metadata.get("max", len(value))
            and "pattern" in metadata
            and not _is_match(metadata["pattern"], value)
        ):
            yield f"Member must satisfy regular expression pattern: {metadata['pattern']}"
    elif shape.type_name in ("list", "map", "blob"):
        yield from _broken_bounds(metadata, len(value), _LENGTH)


def _broken_bounds(metadata: dict[str, Any], size: float, text: str) -> Iterator[str]:
    if "max" in metadata and size > metadata["max"]:
        yield text.format("less", metadata["max"])
    if "min" in metadata and size < metadata["min"]:
        yield text.format("greater", metadata["min"])


@functools.cache
def _compile(pattern: str) -> Any:
    try:
        return regex.compile(pattern)
    except regex.error:  # a few patterns of the models are Java's alone
        return None


def _is_match(pattern: str, value: str) -> bool:
    compiled = _compile(pattern)
    if compiled is None:
        return True
    try:
        return compiled.fullmatch(value, timeout=_PATTERN_LIMIT) is not None
    except TimeoutError:
        return False


def _format(value: Any) -> str:
    """Return a value as AWS shows it in its errors."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_format, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={_format(item)}' for key, item in value.items())}}}"
    return str(value)
