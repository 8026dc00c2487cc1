"""Start the threads of numexpr in the job that imports it; separate, because it changes another package.

Numexpr starts its threads at its import, and none of them survives a fork.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict

if TYPE_CHECKING:
    from types import ModuleType

MODULE = "numexpr.interpreter"
"""The compiled module that has the threads."""
_UTILS = "numexpr.utils"
_FUNCTION = "_set_num_threads"
_held: Dict[str, Callable[[int], int]] = {}


def hold(interpreter: ModuleType) -> None:
    """Make numexpr set its number of threads without starting them; ``interpreter`` is the module just imported."""
    original = getattr(interpreter, _FUNCTION, None)
    if original is not None:
        _held[_FUNCTION] = original
        setattr(interpreter, _FUNCTION, lambda _count: 1)


def start() -> None:
    """Start as many as numexpr chooses in this process."""
    utils: Any = sys.modules.get(_UTILS)
    for name, original in _held.items():
        for module in (sys.modules.get(MODULE), utils):
            if module is not None:
                setattr(module, name, original)
    _held.clear()
    choose = getattr(utils, "_init_num_threads", None)
    if choose is not None:
        setattr(sys.modules["numexpr"], "nthreads", choose())  # noqa: B010 - type checkers find no such attribute
