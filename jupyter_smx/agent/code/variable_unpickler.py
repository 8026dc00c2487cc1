"""Unpickle variables that another version of Python, numpy or pandas may have written.

Plain values, arrays and tables are the same in every version from Python 3.8 on, except for some names of modules. The
code of functions and classes, which cloudpickle writes, is valid only in the version that compiled it. Standard
library only: the job's process and the kernel both read variables.
"""

from __future__ import annotations

import io
import pickle
import sys
from functools import partial
from typing import Any, Callable, Iterable

CODE_BUILDERS = frozenset({"_make_function", "_make_skeleton_class", "_make_skeleton_enum"})
"""Functions of cloudpickle that build a function or a class from its code."""
_BUILT_IN_TYPE, _CODE_TYPE = "_builtin_type", "CodeType"
"""Function of cloudpickle that finds a type of Python by its name, and the name of the type of bytecode."""
_CLOUDPICKLE = "cloudpickle"
_RENAMED = (("numpy._core", "numpy.core"), ("numpy.core", "numpy._core"), ("pathlib._local", "pathlib"))
"""Modules with another name in other versions: numpy 2 and numpy 1, Python 3.13 and all others."""
_PANDAS, _PANDAS_NAMES = "pandas", "pandas.compat.pickle_compat"
"""pandas, and its module with the present places of classes in pickles of earlier versions."""


class CodeVersionError(pickle.UnpicklingError):
    """A variable contains the code of a function or class, which another version of Python compiled."""


def python_version() -> str:
    """Return the version of this Python on which bytecode depends, as ``3.11``."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


class VariableUnpickler(pickle.Unpickler):
    """Reads one variable that Python ``writer`` pickled, as ``3.11``; "" is a version like this one."""

    def __init__(self, file: Any, *, buffers: Iterable[Any] = (), writer: str = "") -> None:
        super().__init__(file, buffers=buffers)
        self._writer = "" if writer == python_version() else writer

    def find_class(self, module: str, name: str) -> Any:
        """Find a class or function, also if its module has another name here.

        :raises CodeVersionError: it would build code of another version of Python.
        """
        is_guarded = bool(self._writer) and module.partition(".")[0] == _CLOUDPICKLE
        if is_guarded and name in CODE_BUILDERS:
            raise self._code_error()
        try:
            found = super().find_class(module, name)
        except (ImportError, AttributeError, Warning):  # numpy 2 warns of the old names, and warnings may be errors
            found = self._find_renamed(module, name)
            if found is None:
                raise
        return partial(self._find_type, found) if is_guarded and name == _BUILT_IN_TYPE else found

    def _code_error(self) -> CodeVersionError:
        return CodeVersionError(
            f"the code of a function or class, which Python {self._writer} compiled, and this is {python_version()}"
        )

    def _find_type(self, find: Callable[[str], Any], name: str) -> Any:
        if name == _CODE_TYPE:
            raise self._code_error()
        return find(name)

    def _find_renamed(self, module: str, name: str) -> Any:
        """Find a class or function in the present place of its module; None if no other place is known."""
        for before, after in _RENAMED:
            if module == before or module.startswith(before + "."):
                return self._find(after + module[len(before) :], name)
        if module.partition(".")[0] != _PANDAS:
            return None
        known = self._find(_PANDAS_NAMES, "_class_locations_map")
        place = known.get((module, name)) if isinstance(known, dict) else None
        return self._find(*place) if place else None

    def _find(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return None


def loads(data: bytes, *, buffers: Iterable[Any] = (), writer: str = "") -> Any:
    """Unpickle one variable that Python ``writer`` packed; raise the errors of any library that it uses.

    :raises CodeVersionError: it contains the code of a function or class of another version of Python.
    """
    return VariableUnpickler(io.BytesIO(data), buffers=buffers, writer=writer).load()
