"""A base for named tuples, separate, because many modules use it: its classes take half the time to make.

`typing` compiles the annotation of each field. An agent makes some thirty named tuples before its first job can start.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Dict, Tuple

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    _OF_THE_CLASS = ("__module__", "__annotations__")

    class _NamedTupleMeta(type):
        """Makes the class that :func:`collections.namedtuple` makes, with the defaults and methods of its body."""

        def __new__(cls, name: str, _bases: Tuple[type, ...], body: Dict[str, Any]) -> type:
            """Make a named tuple of the annotated names in the body of a class."""
            fields = body.get("__annotations__", {})
            defaults = [body[field] for field in fields if field in body]
            made = collections.namedtuple(  # noqa: PYI024 - which this class replaces
                name, fields, defaults=defaults, module=body["__module__"]
            )
            made.__annotations__ = fields
            for key, value in body.items():
                if key not in _OF_THE_CLASS and key not in fields:
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})
