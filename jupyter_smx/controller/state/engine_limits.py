"""The limits of each engine: the administrator's, and those that the engine reports for its hosts.

Asked of the engine each time, since a configuration or a platform may change which instance types there are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import wrap_unexpected
from jupyter_smx.model.errors import SmxError
from jupyter_smx.policy.limits import limits_of_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.spec.instance import InstanceType
    from jupyter_smx.policy.limits import Limits

_log = logging.getLogger(__name__)


def types_of_engine(engine_of: Callable[[str], Engine], name: str) -> tuple[InstanceType, ...]:
    """Give the instance types that an engine brings; none of one that is not installed, or that raises an error.

    They are read at each write of a record, which must not fail by an engine's fault.
    """
    try:
        with wrap_unexpected(_log, f"Listing the instance types of the engine {name}"):
            return tuple(engine_of(name).instance_types())
    except SmxError:
        return ()


class EngineLimits:
    """Gives the limits of an engine by its name."""

    def __init__(self, limits: Limits, engine_of: Callable[[str], Engine]) -> None:
        self._limits = limits
        self._engine_of = engine_of
        self._known: dict[str, tuple[bool, tuple[InstanceType, ...], Limits]] = {}

    def __call__(self, name: str) -> Limits:
        """Give the limits for the jobs of an engine; those of all for one that is not installed any more."""
        try:
            engine = self._engine_of(name)
        except SmxError:
            return self._limits
        bounded, brought = engine.capabilities.bounded_by_machine, types_of_engine(self._engine_of, name)
        known = self._known.get(name)
        if known is None or known[:2] != (bounded, brought):
            known = (bounded, brought, limits_of_engine(self._limits, brought, bounded=bounded))
            self._known[name] = known
        return known[2]
