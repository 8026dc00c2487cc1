"""List the names that the line of a job may have: engines, and what options name on one engine."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import wrap_unexpected
from jupyter_smx.controller.state.engine_limits import types_of_engine
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.results.reports import EngineNames
from jupyter_smx.model.text import engine_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine

_log = logging.getLogger(__name__)


class EngineListing:
    """Lists names for completion. An engine that raises an error has none, because the submission will report it."""

    def __init__(
        self,
        live_state: LiveState,
        engine_of: Callable[[str], Engine],
        engines: Mapping[str, Callable[[], Sequence[str]]],
    ) -> None:
        self._live_state = live_state
        self._engine_of = engine_of
        self._engines = engines

    async def list_names(self, engine: str) -> EngineNames:
        """List the names of engines, and what options name on one engine; "" imports no engine."""
        allowed = self._live_state.limits.allowed_engines
        engines = tuple(sorted(allowed or self._engines))
        if not engine:
            return EngineNames(engines=engines)
        kind = engine_kind(engine)
        targets = await asyncio.to_thread(_names_of, self._engines[kind])
        return EngineNames(
            engines=engines,
            targets=_allowed_targets(kind, targets, allowed),
            interpreters=_names_of(lambda: self._engine_of(engine).interpreter_names()),
            instance_types=self._instance_types(engine),
            options=await self._options(engine),
        )

    async def _options(self, engine: str) -> dict[str, tuple[str, ...]]:
        """List the options that a job may name, each with the values that the engine lists."""
        with suppress(SmxError), wrap_unexpected(_log, "Listing options of an engine"):
            instance = self._engine_of(engine)
            names = instance.capabilities.options
            values = await instance.option_values() if names else {}
            return {name: tuple(values.get(name, ())) for name in names}
        return {}

    def _instance_types(self, engine: str) -> tuple[str, ...]:
        """List the types that the engine brings, then those of the catalogue."""
        limits = self._live_state.limits
        brought = (kind.name for kind in types_of_engine(self._engine_of, engine))
        allowed = limits.allowed_instance_types
        return tuple(name for name in dict.fromkeys((*brought, *limits.catalogue)) if not allowed or name in allowed)


def _names_of(list_names: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    try:
        with wrap_unexpected(_log, "Listing names of an engine"):
            return tuple(list_names())
    except SmxError:
        return ()


def _allowed_targets(kind: str, targets: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Leave out targets that the administrator does not allow; pure."""
    if not allowed or kind in allowed:
        return tuple(targets)
    return tuple(target for target in targets if f"{kind}:{target}" in allowed)
