"""Suggest instance types for a name that the catalog lacks: those of like family and size. Pure.

A name of SageMaker is ``ml.FAMILY.SIZE``; a family is a kind of machine, a generation and a variant, as ``g``, ``4``
and ``dn``. A suggestion of another kind or of a much larger size could cost many times as much, so there is none.
"""

from __future__ import annotations

import math
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.model.errors import suggest_names

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = "ml."
_FAMILY = re.compile(r"(?P<kind>[a-z]+?)(?P<generation>\d+)(?P<variant>[a-z]*(?:-[a-z0-9]+)?)")
_SIZE = re.compile(r"(?P<number>\d*)xlarge")
_SMALL_SIZES = {"medium": 0.25, "large": 0.5}
"""Sizes below ``xlarge``, as parts of it."""
_KINDS = {"t": "general", "m": "general", "c": "compute", "r": "memory", "g": "gpu", "p": "gpu", "trn": "accelerator"}
_MAX_FACTOR = 4.0
"""How many times larger or smaller a suggested size may be."""
_MIN_LIKENESS = 0.75
"""Likeness of two words from which on one may be the other with a typing error."""
_LOCAL_GPU = "local_gpu"
_MAX_SUGGESTED = 3


class TypeName(NamedTuple):
    """The parts of a name; ``size`` counts in units of ``xlarge``."""

    kind: str
    generation: int
    variant: str
    size: float


def parse_type_name(name: str) -> TypeName | None:
    """Return the parts of a name of SageMaker's form, with or without ``ml.``; None if it has another form.

    >>> parse_type_name("ml.g4dn.12xlarge")
    TypeName(kind='g', generation=4, variant='dn', size=12.0)
    """
    family, _, size = name.removeprefix(_PREFIX).partition(".")
    parts, number = _FAMILY.fullmatch(family), _SIZE.fullmatch(size)
    if parts is None or (number is None and size not in _SMALL_SIZES):
        return None
    units = _SMALL_SIZES[size] if number is None else float(number["number"] or 1)
    return TypeName(parts["kind"], int(parts["generation"]), parts["variant"], units) if units else None


def suggest_types(name: str, known: Iterable[str]) -> str:
    """Return a cure for a type that is not among ``known``; "" if none of them is near."""
    names = list(known)
    if name == _LOCAL_GPU:
        return next((f"Use a type with a GPU, for example {other}." for other in names if _has_gpus(other)), "")
    written = parse_type_name(name)
    if written is not None:
        return _format(_find_like_size(written, names))
    others = [] if name.startswith(_PREFIX) else [other for other in names if parse_type_name(other) is None]
    return suggest_names(name, others) or _format(_find_like_spelling(name, names))


def _format(names: list[str]) -> str:
    return f"Did you mean {' or '.join(names)}?" if names else ""


def _has_gpus(name: str) -> bool:
    parts = parse_type_name(name)
    return parts is not None and _KINDS.get(parts.kind) == "gpu"


def _find_like_size(written: TypeName, names: list[str]) -> list[str]:
    """Return types of the same family, else of the same kind, else of the same use; the nearest in size first."""
    parsed = [(name, parts) for name in names if (parts := parse_type_name(name)) is not None]
    if equal := [name for name, parts in parsed if parts == written]:
        return equal  # it was written without the prefix
    near = [(name, parts) for name, parts in parsed if _size_distance(written, parts) <= math.log2(_MAX_FACTOR)]
    for is_like in (_is_same_family, _is_same_kind, _is_same_use):
        chosen = [(name, parts) for name, parts in near if is_like(written, parts)]
        if chosen:
            ranked = sorted(chosen, key=lambda row: _distance(written, row[1]))
            return [name for name, _ in ranked[:_MAX_SUGGESTED]]
    return []


def _is_same_family(one: TypeName, other: TypeName) -> bool:
    return one[:3] == other[:3]


def _is_same_kind(one: TypeName, other: TypeName) -> bool:
    return one.kind == other.kind


def _is_same_use(one: TypeName, other: TypeName) -> bool:
    return one.kind in _KINDS and _KINDS[one.kind] == _KINDS.get(other.kind)


def _size_distance(one: TypeName, other: TypeName) -> float:
    """Return the distance of two sizes: 1 for twice or half the size."""
    return abs(math.log2(one.size / other.size))


def _distance(written: TypeName, other: TypeName) -> tuple[float, int, bool, str, float]:
    """Order types by size, generation and variant; of two sizes that are equally far away the smaller one is first."""
    generations = abs(written.generation - other.generation)
    return (
        _size_distance(written, other),
        generations,
        written.variant != other.variant,
        other.variant,
        other.size,
    )


def _find_like_spelling(name: str, names: list[str]) -> list[str]:
    """Return types that begin with the name, or whose family and size both differ by a typing error at most."""
    word = name.removeprefix(_PREFIX)
    family, _, size = word.partition(".")
    rows = []
    for other in names:
        other_word = other.removeprefix(_PREFIX)
        other_family, _, other_size = other_word.partition(".")
        likeness = (_likeness(family, other_family), _likeness(size, other_size))
        if word and other_word.startswith(word):
            rows.append((-2.0, 0.0, other))
        elif other.startswith(_PREFIX) and min(likeness) >= _MIN_LIKENESS:
            rows.append((-likeness[0], -likeness[1], other))
    return [other for _, _, other in sorted(rows, key=lambda row: row[:2])[:_MAX_SUGGESTED]]


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
