"""Pickle as cloudpickle does, with file names of functions; separate because cloudpickle loads slowly."""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from cloudpickle import CloudPickler

from jupyter_smx.agent.code.variable_unpickler import CODE_BUILDERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Take a code apart as cloudpickle does, which names each file ``<dynamic-code>`` from 3.1.3 on."""
    make, parts = CloudPickler.dispatch_table[CodeType](code)
    # In every version of Python the name of the file is the first text among them.
    file = next(place for place, part in enumerate(parts) if isinstance(part, str))
    return make, (*parts[:file], code.co_filename, *parts[file + 1 :])


class _Pickler(CloudPickler):  # type: ignore[misc] # it has no types
    """Notes in ``code`` the functions, classes and code objects that are pickled with their code."""

    dispatch_table: ClassVar[Any] = ChainMap({CodeType: _reduce_code}, CloudPickler.dispatch_table)

    def __init__(self, file: IO[bytes], code: list[str], **options: Any) -> None:
        super().__init__(file, **options)
        self._code = code

    def reducer_override(self, value: Any) -> Any:
        """Reduce a value as cloudpickle does; called for each one that is not of a basic type."""
        reduced = super().reducer_override(value)
        if isinstance(reduced, tuple):
            if getattr(reduced[0], "__name__", "") in CODE_BUILDERS:
                self._code.append(_describe_code(value))
        elif type(value) is CodeType:
            self._code.append(_describe_code(value))
        return reduced


def _describe_code(value: Any) -> str:
    if isinstance(value, CodeType):
        return f"the code object {value.co_name}"
    return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"


def dumps(
    value: object,
    protocol: int | None = None,
    buffer_callback: Callable[[Any], Any] | None = None,
    code: list[str] | None = None,
) -> bytes:
    """Pickle a value; raise cloudpickle's error if that fails.

    ``code`` gets a text for each function or class that is pickled with its code, as ``the class Net``.
    """
    with io.BytesIO() as file:
        found = [] if code is None else code
        _Pickler(file, found, protocol=protocol, buffer_callback=buffer_callback).dump(value)
        return file.getvalue()
