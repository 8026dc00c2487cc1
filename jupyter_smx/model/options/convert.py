"""Convert the value of a plain option to its field in the job request, and check it there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.model import duration
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options.table import PLAIN, SPEC_DEFAULTS, TABLE
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from jupyter_smx.model.options.option import Option
    from jupyter_smx.model.spec.job_spec import JobSpec

_DIGITS = 9
_MAX_NUMBER = 10**_DIGITS - 1
"""Larger than any count in use."""
_SIZE = re.compile(r"(\d{1,15})(?:\.(\d{1,3}))?\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MAX_SIZE = 1 << 50
"""Bytes; larger than any memory in use."""
_OF_ONE_KIND = tuple(option for option in TABLE if option.field and len(option.kinds) == 1)


def to_field(option: Option, value: Any) -> Any:
    """Convert a keyword's value, or the text of a line, to the field of a plain option; None is the default.

    A ``location`` stays as it is: only the kernel's side has the folder that relative paths start from.

    :raises ValidationError: the value cannot be converted.
    """
    if value is None:
        return option.default
    if option.value == "duration":
        return duration.parse(value, option.name)
    if option.value == "size":
        return parse_size(value, option.spelling, option.example)
    if option.value == "number":
        return parse_number(value, option.spelling, option.counts, option.minimum)
    if option.value == "choice":
        return _check_choice(option, value)
    return value if option.value == "flag" else str(value)


def _check_choice(option: Option, value: object) -> str:
    if value in option.choices:
        return str(value)
    raise ValidationError(
        f"{option.spelling}: {format_value(value)} does not exist.",
        field=option.name,
        value=format_value(value),
        rule=f"It is one of {', '.join(option.choices)}: {option.help}.",
        cure=suggest_names(str(value), option.choices) or _leave_out(option),
    )


def _leave_out(option: Option) -> str:
    default = f" for {option.default}" if option.default else f"; the default is {option.default_text}"
    return f"Leave it out{default}."


def parse_number(value: int | str, option: str, of: str, least: int, most: int | None = None, *, cure: str = "") -> int:
    """Parse a whole number from ``least`` to ``most`` (None: no limit but that of counts); ``of`` is the counted thing.

    ``cure`` is for an option with a form of its own, of which the number is a part.

    :raises ValidationError: the value is no such number.
    """
    limit = _MAX_NUMBER if most is None else most
    number = parse_int(value)
    if number is not None and least <= number <= limit:
        return number
    shown = format_value(value)
    upper = f" to {limit}" if most is not None or len(shown) > _DIGITS + 2 else ""
    raise ValidationError(
        f"{option}: {shown} is not a number{f' {of}' if of else ''}.",
        field=option.partition(" ")[0].removeprefix("--").replace("-", "_"),
        value=shown.strip("'"),
        rule=f"It is a whole number from {least}{upper}.",
        cure=cure or (f"For example {option} {max(least, 1)}." if option.startswith("--") else ""),
    )


def parse_size(value: int | str, option: str, example: str) -> int:
    """Parse a number of bytes: a whole number, or text with a binary unit, as ``512m`` and ``1.5g``.

    :raises ValidationError: the value is no such size, or out of range.
    """
    found = _SIZE.fullmatch(str(value).strip())
    size = 0
    if found is not None and not isinstance(value, bool):
        unit = _UNITS[found[3].lower()]
        size = int(found[1]) * unit + int(found[2] or 0) * unit // 10 ** len(found[2] or "")
    if 0 < size <= _MAX_SIZE:
        return size
    raise ValidationError(
        f"{option}: {format_value(value)} is not a size.",
        field=option.removeprefix("--").replace("-", "_"),
        value=format_value(value).strip("'"),
        rule="A size is a number of bytes, or a number with the unit k, m, g or t.",
        cure=f"For example {option} {example}.",
    )


def parse_int(value: object) -> int | None:
    """Parse a whole number, or text of few digits; return None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value)
    # Python itself refuses to parse numbers of very many digits.
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def check_fields(spec: JobSpec) -> None:
    """Check the plain fields of a job request, whichever client made it.

    :raises ValidationError: an option of the other kind of job, or a number out of range.
    """
    for option in _OF_ONE_KIND:
        value = getattr(spec, option.field)
        if spec.kind not in option.kinds and value != SPEC_DEFAULTS[option.field]:
            raise other_kind_error(option, spec.kind, value)
    for option in PLAIN:
        value = getattr(spec, option.field)
        if option.value in ("number", "size"):
            _check_range(option, value)
        if option.value in ("text", "location") and "\0" in value:
            raise nul_error(option.name)


def other_kind_error(option: Option, kind: str, value: object = "") -> ValidationError:
    """Build the refusal of an option that jobs of this kind do not have."""
    job = "training" if kind == "train" else "processing"
    shown = "" if option.is_flag else format_value(value).strip("'")
    other = "%%process" if kind == "train" else "%%train"
    return ValidationError(
        f"{option.spelling} is not for {job} jobs.",
        field=option.name,
        value=shown,
        rule=option.kind_rule,
        cure=f"Leave it out, or use {other}.",
    )


def nul_error(field: str) -> ValidationError:
    """Build the refusal of a text with a NUL character."""
    return ValidationError(
        f"{field}: there is a NUL character in it.",
        field=field,
        value="\\0",
        rule="Neither a variable nor a path of a process can hold one.",
        cure="Remove it; send bytes in a file, with --input.",
    )


def _check_range(option: Option, number: int) -> None:
    if option.maximum is None and number >= option.minimum:
        return
    if option.maximum is not None and option.minimum <= number <= option.maximum:
        return
    upper = f" to {option.maximum}" if option.maximum is not None else ""
    raise ValidationError(
        f"{option.spelling}: {number}.",
        field=option.name,
        value=number,
        rule=f"It is a whole number from {option.minimum}{upper}.",
        cure=f"For example {option.spelling} {option.example}.",
    )
