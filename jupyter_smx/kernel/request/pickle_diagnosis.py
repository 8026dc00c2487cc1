"""Explain why a variable cannot be pickled: the path to the object that refuses."""

from __future__ import annotations

import contextlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEPTH = 12
_WIDTH = 1000
"""Children of one object that are tried: a wide container costs one dump for each."""


class UnpicklablePart(Struct, frozen=True):
    """Path of the object that cannot be pickled, as ``cfg.model.lock``, and its type, as ``_thread.lock``."""

    path: str
    type: str


def find_unpicklable(name: str, value: Any, can_pickle: Callable[[Any], bool]) -> UnpicklablePart:
    """Walk down from a variable that cannot be pickled to the deepest part that cannot."""
    path = name
    seen = {id(value)}
    for _ in range(_DEPTH):
        following = next(
            ((step, child) for step, child in _children(value) if id(child) not in seen and not can_pickle(child)),
            None,
        )
        if following is None:
            break
        path, value = path + following[0], following[1]
        seen.add(id(value))
    return UnpicklablePart(path, type_name(value))


def type_name(value: Any) -> str:
    """Name a type as an import would, without ``builtins``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts that pickling visits, each with its step: ``.attribute``, ``['key']``, ``[3]``."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in _first_items(value.items()))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in _first_items(enumerate(value)))
    elif isinstance(value, (set, frozenset)):
        yield from ((f" ∋ {item!r}"[:40], item) for item in _first_items(value))
    elif isinstance(value, FunctionType):
        yield from _closure_variables(value)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f".{key}", item) for key, item in _first_items(attributes.items()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)


def _first_items(items: Any) -> list[Any]:
    return [item for item, _ in zip(items, range(_WIDTH), strict=False)]


def _closure_variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Return the variables that are pickled with a function: its closure and the globals that it names."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # not bound yet
            yield f" → {name}", cell.cell_contents
    yield from ((f" → {name}", function.__globals__[name]) for name in code.co_names if name in function.__globals__)
