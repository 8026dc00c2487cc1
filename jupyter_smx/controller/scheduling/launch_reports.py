"""What an engine reports about one launch; separate, because the reconciler of clusters is long.

An exception of an engine that is no SmxError becomes an error of ours here, and what the engine began is ended.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import wrap_unexpected

if TYPE_CHECKING:
    from jupyter_smx.engines.base import ClusterRequest, Engine
    from jupyter_smx.model.records.cluster import Handle, QueueStatus

_log = logging.getLogger(__name__)


class LaunchReports:
    """An engine's reports on one launch; an exception that is no SmxError becomes an :class:`UnexpectedError`."""

    def __init__(self, engine: Engine, request: ClusterRequest) -> None:
        self._what = f"Launching hosts with the engine {engine.name}"
        with wrap_unexpected(_log, self._what):
            self._reports = engine.acquire(request)

    async def next(self) -> Handle | QueueStatus | None:
        """Wait for the next report; None at the end."""
        with wrap_unexpected(_log, self._what):
            return await anext(self._reports, None)

    async def close(self) -> None:
        """End what the engine has begun for it."""
        if isinstance(self._reports, AsyncGenerator):
            with wrap_unexpected(_log, self._what):
                await self._reports.aclose()
