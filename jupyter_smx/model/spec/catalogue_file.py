"""Read a catalogue of instance types from JSON: a list of rows; errors name the line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import msgspec

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEPARATOR = re.compile(r"[\s,]*")
_RULE = (
    "The file is a JSON list of objects with name, vcpus (1 or more) and memory_gib. Optional fields are gpus, "
    "price_per_hour (US dollars, null if unknown), source and hardware_source (origin of the price and of the "
    "hardware data), and options (text by name, for the engine)."
)


class CatalogueRow(Protocol):
    """A row of a catalogue."""

    @property
    def name(self) -> str:
        """Return the unique name of the row."""


_Row = TypeVar("_Row", bound=CatalogueRow)


def read_rows(text: str, where: str, kind: type[_Row]) -> dict[str, _Row]:
    """Read a catalogue of rows of type ``kind``; ``where`` is the text's place for messages.

    :raises ValidationError: it is invalid; the text has the line and the field.
    """
    found: dict[str, _Row] = {}
    for line, begin, end in _objects(text, where):
        try:
            row = msgspec.convert(json.loads(text[begin:end]), kind)
        except msgspec.ValidationError as error:
            what, _, path = str(error).partition(" - at `$")
            field = path.rstrip("`").lstrip(".") or _field_in_message(what)
            at = re.search(rf'"{re.escape(field)}"\s*:', text[begin:end]) if field else None
            ahead = text.count("\n", begin, begin + at.start()) if at else 0
            _refuse(where, line + ahead, f"{field}: {what}" if field else what, field)
        if row.name in found:
            _refuse(where, line, f"name: {row.name!r} is already used", "name")
        found[row.name] = row
    if not found:
        _refuse(where, 1, "it has no instance types", "")
    return found


def _objects(text: str, where: str) -> Iterator[tuple[int, int, int]]:
    """Yield line, begin and end of each element of the list in the text."""
    decoder = json.JSONDecoder(parse_constant=_reject_constant)
    try:
        whole = json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        _refuse(where, error.lineno, f"it is not JSON: {error.msg}", "")
    except ValueError as error:
        _refuse(where, 1, str(error), "")
    if not isinstance(whole, list):
        _refuse(where, 1, f"it must be a list, not {_kind(whole)}", "")
    begin = text.index("[") + 1
    for _ in whole:
        begin = _skip(text, begin)
        _, end = decoder.raw_decode(text, begin)
        yield text.count("\n", 0, begin) + 1, begin, end
        begin = end


def _skip(text: str, begin: int) -> int:
    found = _SEPARATOR.match(text, begin)
    return found.end() if found else begin


def _field_in_message(what: str) -> str:
    """Return the field in msgspec's message about a missing or unknown one."""
    found = re.search(r"field `([^`]+)`$", what)
    return found[1] if found else ""


def _kind(value: Any) -> str:
    return {dict: "an object", str: "a string", type(None): "null", bool: "true or false"}.get(type(value), "a number")


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _refuse(where: str, line: int, what: str, field: str) -> NoReturn:
    raise ValidationError(
        f"{where}, line {line}: {what}.", field=field or "instance_types_file", value=where, rule=_RULE
    )
