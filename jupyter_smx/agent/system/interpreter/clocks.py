"""Reset the start times that modules recorded at their import to the begin of the job.

:mod:`logging` and others keep the moment of their import as the beginning of the program. In a zygote it was long ago.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

from jupyter_smx.agent.system.named_tuple import NamedTuple

_NANOSECONDS = 1_000_000_000
_OWN = "jupyter_smx"
_FRACTION = 1_000
"""Parts of a second; no number that a programmer writes for a clock that counts from the boot has smaller ones."""
_DAMAGED = (ValueError, OverflowError, OSError, TypeError, AttributeError)


class _Start(NamedTuple):
    """A variable of a module that has the moment of an import; ``move`` makes of its value that of now."""

    variables: Dict[str, Any]
    name: str
    move: Callable[[Any], Any]


class Moments(NamedTuple):
    """One moment in seconds on two clocks: since the epoch, and since the boot."""

    world: float
    boot: float


def now() -> Moments:
    """Read both clocks."""
    return Moments(time.time(), time.monotonic())


class StartTimes:
    """The moments of their import that modules have kept."""

    def __init__(self, began: Moments) -> None:
        self._began = began
        self._starts: List[_Start] = []

    def find(self, ended: Moments) -> None:
        """Find variables of modules whose value is a moment of the imports, which are over."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == _OWN or not issubclass(type(module), ModuleType):
                continue
            # The attribute itself would load a module that is to be loaded later.
            variables = ModuleType.__getattribute__(module, "__dict__")
            for variable, value in list(variables.items()):
                move = _mover(value, self._began, ended)
                if move is not None:
                    self._starts.append(_Start(variables, variable, move))

    def restart(self) -> None:
        """Set all start times to now."""
        for start in self._starts:
            if start.name in start.variables:
                start.variables[start.name] = start.move(start.variables[start.name])


def _mover(value: Any, began: Moments, ended: Moments) -> Optional[Callable[[Any], Any]]:
    kind = type(value)
    if kind is float:
        return _float_mover(value, began, ended)
    if kind is int:
        return _int_mover(value, began, ended)
    datetime: Any = sys.modules.get("datetime")
    return _datetime_mover(value, began, ended, datetime) if datetime and issubclass(kind, datetime.datetime) else None


def _float_mover(value: float, began: Moments, ended: Moments) -> Optional[Callable[[Any], Any]]:
    if began.world <= value <= ended.world:
        return lambda _old: time.time()
    if began.boot <= value <= ended.boot and value * _FRACTION % 1:
        return lambda _old: time.monotonic()
    return None


def _int_mover(value: int, began: Moments, ended: Moments) -> Optional[Callable[[Any], Any]]:
    if int(began.world) <= value <= ended.world:
        return lambda _old: int(time.time())
    if began.world * _NANOSECONDS <= value <= ended.world * _NANOSECONDS:
        return lambda _old: time.time_ns()
    if began.boot * _NANOSECONDS <= value <= ended.boot * _NANOSECONDS and value * _FRACTION % _NANOSECONDS:
        return lambda _old: time.monotonic_ns()
    return None


def _datetime_mover(value: Any, began: Moments, ended: Moments, datetime: Any) -> Optional[Callable[[Any], Any]]:
    """Find out of a date and time without a zone whether it is of this zone or of UTC."""
    for zone in (value.tzinfo,) if value.tzinfo else (None, datetime.timezone.utc):
        if began.world <= _timestamp(value, zone) <= ended.world:
            return lambda old, zone=zone: old + datetime.timedelta(seconds=time.time() - _timestamp(old, zone))  # type: ignore[misc]
    return None


def _timestamp(value: Any, zone: Any) -> float:
    try:
        return float(value.replace(tzinfo=zone).timestamp())
    except _DAMAGED:  # as of a value of pandas that is no date
        return 0.0


_times: List[StartTimes] = []


def begin_watching() -> None:
    """Record the begin of imports, in a process that preloads modules."""
    _times[:] = [StartTimes(now())]


def end_watching() -> None:
    """Take note that the imports are over."""
    for one in _times:
        one.find(now())


def restart() -> None:
    """Reset the start times of modules to now."""
    for one in _times:
        one.restart()
