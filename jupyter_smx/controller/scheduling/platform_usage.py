"""Records what a platform accounted for hosts that have ended, in the background: its accounting may take seconds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import FencedError, log_and_continue, wrap_unexpected
from jupyter_smx.controller.scheduling.task_set import TaskSet
from jupyter_smx.engines.base import Engine
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.results.usage import PlatformUsage

_log = logging.getLogger(__name__)
_TIMEOUT = 10.0
"""Seconds after which a query of a platform's accounting is cancelled."""


class PlatformUsageRecorder:
    """Reads figures of ended clusters from their engines; ``on_fenced`` is called if another controller took over."""

    def __init__(
        self, live_state: LiveState, engine_of: Callable[[str], Engine], on_fenced: Callable[[], None]
    ) -> None:
        self._live_state = live_state
        self._engine_of = engine_of
        self._on_fenced = on_fenced
        self._tasks = TaskSet()

    def save_end(self, cluster: Cluster, reason: str) -> None:
        """Record the end of a cluster, and begin to read its figures if its platform accounts any."""
        is_accounted = cluster.handle is not None and has_accounting(self._engine_of(cluster.key.engine))
        self._live_state.save_cluster_end(cluster, reason, has_usage=is_accounted)
        if is_accounted:
            self._tasks.start(self._record(cluster), f"platform usage of {cluster.id}")

    def resume(self) -> None:
        """Begin to read the figures that earlier controllers did not get, one cluster after the other."""
        clusters = self._live_state.store.clusters_without_usage()
        if clusters:
            self._tasks.start(self._record_all(clusters), "platform usage of earlier pools")

    async def _record_all(self, clusters: Sequence[Cluster]) -> None:
        for cluster in clusters:
            await self._record(cluster, is_second_try=True)

    async def _record(self, cluster: Cluster, *, is_second_try: bool = False) -> None:
        """Read the figures, and record them, or that there are none.

        After a first try without an answer nothing is recorded, so that the next controller asks once more.
        """
        try:
            with log_and_continue(_log, "pool={} its platform usage was not recorded", cluster.id):
                has_answer, usage = await self._read(cluster)
                if has_answer or is_second_try:
                    self._live_state.save_platform_usage(cluster.id, usage)
        except FencedError:
            self._on_fenced()

    async def _read(self, cluster: Cluster) -> tuple[bool, PlatformUsage | None]:
        """Return True if the platform answered in time, and its figures; None if it accounts nothing."""
        engine = self._engine_of(cluster.key.engine)
        with suppress(SmxError), wrap_unexpected(_log, "Reading the accounts of an engine"):
            try:
                return True, await asyncio.wait_for(engine.platform_usage(cluster.id), _TIMEOUT)
            except asyncio.TimeoutError:
                _log.info("pool=%s no platform usage: the engine gave no answer in %g s", cluster.id, _TIMEOUT)
        return False, None

    async def drain(self, limit: float) -> None:
        """Wait for queries that are running, for at most ``limit`` seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.settle(), limit)

    async def settle(self) -> None:
        """Wait until no query is running; for tests and an orderly end."""
        await self._tasks.settle()

    def close(self) -> None:
        """Cancel running queries."""
        self._tasks.cancel()


def has_accounting(engine: object) -> bool:
    """Return True if the platform of an engine may account something. Pure.

    The method is optional in the port: an object with the six methods is an engine, too.
    """
    method = getattr(type(engine), "platform_usage", None)
    return method is not None and method is not Engine.platform_usage
