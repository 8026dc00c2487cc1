"""The controller's part of the doctor page: the engines' own reports, and removing what engines left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from jupyter_smx.controller.state.engine_limits import types_of_engine
from jupyter_smx.engines.base import DOCTOR_TIMEOUT
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.text import format_count, format_duration, format_moment
from jupyter_smx.policy.lifecycle.launch import format_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Cluster

BRIEF_TIMEOUT = 3.0
"""Seconds for machines of engines where the user named none."""


class EngineDoctor:
    """Asks engines, side by side; an error of one is part of the answer."""

    def __init__(self, live_state: LiveState, engine_of: Callable[[str], Engine]) -> None:
        self._live_state = live_state
        self._engine_of = engine_of

    async def examine(self, names: Iterable[str], *, is_brief: bool) -> dict[str, dict[str, Any]]:
        """Return the report of each engine on itself, or the error that it raised."""
        timeout = BRIEF_TIMEOUT if is_brief else DOCTOR_TIMEOUT
        names = [*names]
        return dict(zip(names, await asyncio.gather(*(self._examine(name, timeout) for name in names)), strict=True))

    async def fix(self, names: Iterable[str]) -> dict[str, list[str]]:
        """End hosts without a record, and delete what ended clusters left on other machines.

        Returns by engine what was ended and deleted, or why that failed; engines that had nothing are left out.
        """
        names = [*names]
        found = await asyncio.gather(*(self._fix(name) for name in names))
        return {name: done for name, done in zip(names, found, strict=True) if done}

    async def _examine(self, name: str, timeout: float) -> dict[str, Any]:
        try:
            engine = self._engine_of(name)
        except (SmxError, OSError) as error:
            return {"not_usable": str(error)}
        try:
            found = await engine.doctor(timeout)
        except (SmxError, OSError) as error:
            return {"trouble": str(error)}
        brought = [kind.name for kind in types_of_engine(self._engine_of, name)]
        pools = self._report_pools(name)
        return found | ({"instance_types": brought} if brought else {}) | ({"pools": pools} if pools else {})

    def _report_pools(self, engine: str) -> dict[str, str]:
        """Say of the clusters of an engine, by name, what a user waits for there; others are left out."""
        state, reports = self._live_state, {}
        for cluster in state.clusters.values():
            report = format_cluster(cluster, state.unreachable.get(cluster.id, ""), state.clock())
            if cluster.key.engine == engine and report:
                reports[cluster.name()] = report
        return reports

    async def _fix(self, name: str) -> list[str]:
        try:
            engine = self._engine_of(name)
            ended = await engine.sweep(lambda: [*self._live_state.clusters])
        except (SmxError, OSError) as error:
            return [f"Stopping failed: {error}"]
        try:
            deleted = await engine.prune(self._is_needed)
        except (SmxError, OSError) as error:
            return [*ended, f"Deleting failed: {error}"]
        return [*ended, f"files of {format_count(len(deleted), 'ended cluster')}"] if deleted else ended

    def _is_needed(self, cluster: str) -> bool:
        """Return True if a cluster lives, or has a job whose results may not have been read."""
        jobs = self._live_state.jobs.values()
        return cluster in self._live_state.clusters or any(job.cluster == cluster for job in jobs)


def format_cluster(cluster: Cluster, unreachable: str, now: float) -> str:
    """Return why hosts of a cluster are not reachable, what they wait for, and when their platform ends them; pure.

    "" if nothing of that is true. ``unreachable`` is the sentence of its summary, ``now`` seconds since the epoch.
    """
    handle, status = cluster.handle, cluster.waiting
    sentences = [unreachable, format_wait(cluster.key.engine, status, now) if status else ""]
    if handle is not None and handle.allocation_ends_at is not None:
        left = format_duration(max(0, round(handle.allocation_ends_at - now)))
        sentences.append(f"Its allocation ends in {left}, at {format_moment(handle.allocation_ends_at, now)}.")
    return " ".join(filter(None, sentences))
