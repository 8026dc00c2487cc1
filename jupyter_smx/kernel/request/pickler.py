"""Pickle as cloudpickle does, with file names of functions; separate because cloudpickle loads slowly."""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from cloudpickle import CloudPickler

if TYPE_CHECKING:
    from collections.abc import Callable


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Take a code apart as cloudpickle does, which names each file ``<dynamic-code>`` from 3.1.3 on."""
    make, parts = CloudPickler.dispatch_table[CodeType](code)
    # In every version of Python the name of the file is the first text among them.
    file = next(place for place, part in enumerate(parts) if isinstance(part, str))
    return make, (*parts[:file], code.co_filename, *parts[file + 1 :])


class _Pickler(CloudPickler):  # type: ignore[misc] # it has no types
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, CloudPickler.dispatch_table)


def dumps(value: object, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Pickle a value; raise cloudpickle's error if that fails."""
    with io.BytesIO() as file:
        _Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(value)
        return file.getvalue()
