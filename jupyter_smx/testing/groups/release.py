"""Contract group E, release: nothing that costs remains, however the cluster ended."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups.stop import process_tree_source

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

CLUSTER_COUNT = 10


class ReleaseGroup:
    """Release, repeated release, release by another process."""

    async def test_release_leaves_nothing(self, harness: Harness) -> None:
        handle = await harness.acquire(harness.request(2))
        assert harness.leftovers(handle.cluster)
        await harness.engine.release(handle)
        assert harness.live_hosts(handle.cluster) == set()
        assert harness.leftovers(handle.cluster) == []

    async def test_release_twice_and_twice_at_once_is_release_once(self, harness: Harness) -> None:
        handle = await harness.acquire()
        await asyncio.gather(harness.engine.release(handle), harness.new_engine().release(handle))
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []

    async def test_release_by_a_new_engine_leaves_nothing(self, harness: Harness) -> None:
        handle = await harness.acquire()
        await harness.new_engine().release(handle)
        assert harness.leftovers(handle.cluster) == []
        assert await harness.engine.find(handle.cluster) is None

    async def test_release_by_the_id_only_leaves_nothing(self, harness: Harness) -> None:
        handle = await harness.acquire()
        await harness.new_engine().release(Handle(engine=harness.engine.name, cluster=handle.cluster))
        assert harness.leftovers(handle.cluster) == []

    async def test_release_of_an_unknown_cluster_is_quiet_and_harms_nobody(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        for cluster in (secrets.token_hex(8), "..", "", handle.cluster[:-1]):
            await harness.engine.release(Handle(engine=harness.engine.name, cluster=cluster))
        assert harness.live_hosts(handle.cluster) == {"algo-1"}

    async def test_releasing_one_cluster_does_not_touch_its_neighbour(self, harness: Harness) -> None:
        one, two = await asyncio.gather(harness.acquire(), harness.acquire_shared())
        async with AgentClient(harness.engine, two) as agent:
            job = await agent.run("import time\nprint('on', flush=True)\ntime.sleep(0.2)\nprint('off')")
            await agent.wait_for_log(job, b"on")
            await harness.engine.release(one)
            assert (await agent.wait_for_outcome(job)).text == "on\noff\n"
        assert harness.live_hosts(two.cluster) == {"algo-1"}

    async def test_a_release_during_an_outage_is_repeated_after_it_and_leaves_nothing(self, harness: Harness) -> None:
        handle = await harness.acquire()
        with harness.outage(), pytest.raises(UnavailableError) as told:
            await harness.engine.release(handle)
        assert told.value.transient
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []
        assert await harness.engine.find(handle.cluster) is None

    async def test_an_agent_that_is_asked_to_end_leaves_a_cluster_that_is_gone(self, harness: Harness) -> None:
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            with contextlib.suppress(ConnectionError):
                await agent.call("end")
        await eventually(lambda: not harness.live_hosts(handle.cluster), "the agent has ended")
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []

    async def test_ten_clusters_that_die_at_random_leave_nothing(self, harness: Harness) -> None:
        chance = random.Random(20)  # noqa: S311 - the same deaths in each run
        token = secrets.token_hex(8)
        clusters = []
        for _ in range(CLUSTER_COUNT):
            handle = await harness.acquire(harness.request(chance.choice([1, 2])))
            clusters.append(handle.cluster)
            async with AgentClient(harness.engine, handle) as agent:
                job = await agent.run(process_tree_source(token, hidden=False))
                if chance.random() < 0.7:
                    await agent.wait_for_log(job, b"all born")
            for host in handle.hosts:
                if chance.random() < 0.6:
                    harness.kill_agent(handle.cluster, host.host)
            await chance.choice([harness.engine, harness.new_engine()]).release(handle)
        assert [left for cluster in clusters for left in harness.leftovers(cluster)] == []
        assert harness.command_lines_with(token) == []
