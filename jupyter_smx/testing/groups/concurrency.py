"""Contract group F, concurrency: an engine blocks no caller, works in parallel, and launches what its plan has."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from jupyter_smx.engines.base import Observation
from jupyter_smx.testing.groups.loop_lag import LoopLag

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_smx.testing.harness import Harness

CLUSTER_COUNT = 6
LONGEST_BLOCK = 0.050
"""Seconds."""


def without_fields(value: object, names: Collection[str]) -> object:
    """Leave out the fields of these names, at any depth of dictionaries and lists."""
    if isinstance(value, dict):
        return {name: without_fields(part, names) for name, part in value.items() if name not in names}
    return [without_fields(part, names) for part in value] if isinstance(value, list) else value


class ConcurrencyGroup:
    """The event loop, the plan, many at once."""

    async def test_the_event_loop_is_never_blocked_for_long(self, harness: Harness) -> None:
        request = harness.request(2)
        async with LoopLag() as lag:
            handle = await harness.acquire(request)
            await harness.acquire(request)
            await harness.engine.find(handle.cluster)
            await harness.engine.observe_all([handle] * 200)
            _, writer = await harness.engine.connect(handle, "algo-2")
            writer.close()
            await harness.engine.release(handle)
        assert lag.max_lag < LONGEST_BLOCK

    async def test_several_clusters_come_up_at_once(self, harness: Harness) -> None:
        handles = await asyncio.gather(*(harness.acquire() for _ in range(CLUSTER_COUNT)))
        assert len({handle.cluster for handle in handles}) == CLUSTER_COUNT
        assert await harness.engine.observe_all(handles) == [Observation.RUNNING] * CLUSTER_COUNT
        assert all(harness.launch_counts(handle.cluster) == {"algo-1": 1} for handle in handles)
        await asyncio.gather(*(harness.engine.release(handle) for handle in handles))
        assert [left for handle in handles for left in harness.leftovers(handle.cluster)] == []

    async def test_the_plan_is_what_is_launched(self, harness: Harness) -> None:
        request = harness.request(2, preload=("json", "csv"))
        plan = harness.engine.plan(request)
        await harness.acquire(request)
        assert plan == without_fields(plan, harness.filled_in), "only the platform knows these fields"
        assert without_fields(harness.actual_plan(request.cluster), harness.filled_in) == plan

    async def test_a_plan_is_printable_and_costs_nothing(self, harness: Harness) -> None:
        request = harness.request(2)
        assert json.loads(json.dumps(harness.engine.plan(request))) == harness.engine.plan(request)
        assert harness.launch_counts(request.cluster) == {}
        assert await harness.engine.find(request.cluster) is None

    async def test_every_option_has_help(self, harness: Harness) -> None:
        options = type(harness.engine).class_traits(config=True)
        own = {name: trait for name, trait in options.items() if name not in ("config", "parent", "log")}
        assert [name for name, trait in own.items() if not trait.help] == []
