"""The limits of each engine: the administrator's, and those that the engine reports for its hosts.

An engine is asked at most once a second: each write of a record needs the answer, and a configuration or a platform
seldom changes which instance types there are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.controller.errors import wrap_unexpected
from jupyter_smx.model.errors import SmxError
from jupyter_smx.policy.limits import limits_of_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.spec.instance import InstanceType
    from jupyter_smx.policy.limits import Limits

_log = logging.getLogger(__name__)

_VALID_SECONDS = 1.0
"""Seconds for which an engine's answer is used."""


def types_of_engine(engine_of: Callable[[str], Engine], name: str) -> tuple[InstanceType, ...]:
    """Return the instance types of an engine; none if it is not installed, or raises an error.

    They are read at each write of a record, which must not fail because of an engine.
    """
    try:
        with wrap_unexpected(_log, f"Listing the instance types of the engine {name}"):
            return tuple(engine_of(name).instance_types())
    except SmxError:
        return ()


class _Answer(NamedTuple):
    """What an engine said at a moment, and the limits that follow from it."""

    asked_at: float
    bounded: bool
    brought: tuple[InstanceType, ...]
    limits: Limits


class EngineLimits:
    """Returns the limits of an engine by its name; ``monotonic`` is a clock in seconds."""

    def __init__(self, limits: Limits, engine_of: Callable[[str], Engine], monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._engine_of = engine_of
        self._monotonic = monotonic
        self._answers: dict[str, _Answer] = {}

    def __call__(self, name: str) -> Limits:
        """Return the limits for the jobs of an engine; the general ones if it is not installed any more."""
        now = self._monotonic()
        known = self._answers.get(name)
        if known is not None and now - known.asked_at < _VALID_SECONDS:
            return known.limits
        try:
            engine = self._engine_of(name)
        except SmxError:
            return self._limits
        bounded, brought = engine.capabilities.bounded_by_machine, types_of_engine(self._engine_of, name)
        is_same = known is not None and (known.bounded, known.brought) == (bounded, brought)
        limits = known.limits if known and is_same else limits_of_engine(self._limits, brought, bounded=bounded)
        self._answers[name] = _Answer(now, bounded, brought, limits)
        return limits
