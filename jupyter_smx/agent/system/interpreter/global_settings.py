"""Settings of a whole process that imports change: Python's own, and those of libraries.

Each is read as a new dictionary or list, so that it can be stored and compared. None means that it does not exist.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, List, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple

Values = Any
"""A dictionary, a list, or None."""


class Setting(NamedTuple):
    """One group of settings.

    ``owner`` is the package whose import creates them, so that its own changes do not count; '' for those of Python.
    ``is_default`` means that packages set a value only if the user has set none.
    """

    owner: str
    read: Callable[[], Values]
    write: Callable[[Values], None]
    is_default: bool = False


_HOOKS = (
    (sys, "excepthook"),
    (sys, "unraisablehook"),
    (sys, "displayhook"),
    (sys, "breakpointhook"),
    (sys, "stdout"),
    (sys, "stderr"),
    (threading, "excepthook"),
    (warnings, "showwarning"),
    (warnings, "formatwarning"),
)
_LC_ALL = 6
_SIGNALS = range(1, 32)
_NOT_THERE = (AttributeError, KeyError, TypeError, ValueError, RuntimeError)
"""Errors of a library that is half imported, has another version, or is another package of its name."""


def _read_hooks() -> Values:
    return {(module, name): getattr(module, name, None) for module, name in _HOOKS}


def _write_hooks(values: Values) -> None:
    for (module, name), value in values.items():
        setattr(module, name, value)


def _read_variables() -> Values:
    return dict(os.environb)


def _write_variables(values: Values) -> None:
    for name in os.environb.keys() - values.keys():
        del os.environb[name]
    for name, value in values.items():
        if os.environb.get(name) != value:
            os.environb[name] = value


def _write_filters(filters: Values) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    mutated = getattr(warnings, "_filters_mutated", None) or getattr(warnings, "_filters_mutated_lock_held", None)
    if mutated is not None:
        mutated()


def _write_search_path(path: Values) -> None:
    sys.path[:] = path


_Access = Tuple[Callable[[], Any], Callable[[Any], Any]]


def _plain_values(accessors: Dict[str, _Access], owner: str = "") -> Setting:
    """Make one setting of values that have a function to read and one to write."""

    def write(values: Values) -> None:
        for name, (read, change) in accessors.items():
            if read() != values[name]:
                change(values[name])

    return Setting(owner, lambda: {name: read() for name, (read, _write) in accessors.items()}, write)


def python_settings() -> List[Setting]:
    """Return the settings of Python and its library."""
    import _locale  # noqa: PLC0415 - a zygote without preloads need not carry these
    import decimal  # noqa: PLC0415
    import logging  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import socket  # noqa: PLC0415

    root, context = logging.root, decimal.getcontext()
    plain: Dict[str, _Access] = {
        "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "switch interval": (sys.getswitchinterval, sys.setswitchinterval),
        "collector": (gc.get_threshold, lambda value: gc.set_threshold(*value)),
        "stack size": (threading.stack_size, threading.stack_size),
        "locale": (lambda: _locale.setlocale(_LC_ALL), lambda value: _locale.setlocale(_LC_ALL, value)),
        "socket timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
        "precision": (lambda: context.prec, lambda value: setattr(context, "prec", value)),
        "rounding": (lambda: context.rounding, lambda value: setattr(context, "rounding", value)),
        "log level": (lambda: root.level, root.setLevel),
        "log handlers": (lambda: [*root.handlers], lambda value: root.handlers.__setitem__(slice(None), value)),
        "log limit": (lambda: root.manager.disable, logging.disable),
    }
    handlers: Dict[str, _Access] = {
        str(number): (lambda n=number: signal.getsignal(n), lambda value, n=number: signal.signal(n, value))  # type: ignore[misc]
        for number in _SIGNALS
    }
    return [
        Setting("", _read_variables, _write_variables, is_default=True),
        Setting("", lambda: [*warnings.filters], _write_filters),
        Setting("", lambda: [*sys.path], _write_search_path),
        Setting("", _read_hooks, _write_hooks),
        _plain_values(plain),
        _plain_values(handlers),
    ]
