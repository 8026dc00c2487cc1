"""The limits of each engine: the administrator's, and those that the engine reports for its hosts.

Asked of the engine each time, since a configuration or a platform may change which instance types there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import SmxError
from jupyter_smx.policy.limits import limits_of_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.spec.instance import InstanceType
    from jupyter_smx.policy.limits import Limits


def types_of_engine(engine_of: Callable[[str], Engine], name: str) -> tuple[InstanceType, ...]:
    """Give the instance types that an engine brings; none of one that is not installed, or only in part."""
    try:
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
        bounded, brought = engine.capabilities.bounded_by_machine, tuple(engine.instance_types())
        known = self._known.get(name)
        if known is None or known[:2] != (bounded, brought):
            known = (bounded, brought, limits_of_engine(self._limits, brought, bounded=bounded))
            self._known[name] = known
        return known[2]
