"""Contract group A, identity: one cluster id is one set of hosts, for every caller and every call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.instance import InstanceType

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

UNKNOWN_CLUSTERS = ("", ".", "..", "../..", "a/b", "0123456789ab", "x" * 300, "it's", "line\nbreak", "日本", "a\0b")


class IdentityGroup:
    """Launch once, find again, survive JSON."""

    async def test_a_second_acquire_launches_nothing_and_gives_the_same_handle(self, harness: Harness) -> None:
        request = harness.request(2)
        first = await harness.acquire(request)
        assert await harness.acquire(request) == first
        assert harness.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}

    async def test_an_acquire_by_a_new_engine_launches_nothing(self, harness: Harness) -> None:
        request = harness.request()
        first = await harness.acquire(request)
        assert await harness.acquire(request, engine=harness.new_engine()) == first
        assert harness.launch_counts(request.cluster) == {"algo-1": 1}

    async def test_acquires_behind_each_others_back_launch_once_and_agree(self, harness: Harness) -> None:
        request = harness.request(2)
        engines = [harness.engine, harness.new_engine(), harness.new_engine()]
        handles = await asyncio.gather(*(harness.acquire(request, engine=engine) for engine in engines))
        assert handles[0] == handles[1] == handles[2]
        assert harness.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}
        assert harness.live_hosts(request.cluster) == {"algo-1", "algo-2"}

    async def test_each_step_names_more_hosts_and_the_last_names_all(self, harness: Harness) -> None:
        request = harness.request(3)
        steps = [step async for step in harness.handle_steps(request)]
        counts = [len(step.hosts) for step in steps]
        assert counts == sorted(counts)
        assert [host.host for host in steps[-1].hosts] == ["algo-1", "algo-2", "algo-3"]
        assert all(host in steps[-1].hosts for step in steps for host in step.hosts)

    async def test_a_new_engine_finds_the_same_handle(self, harness: Harness) -> None:
        handle = await harness.acquire(harness.request(2))
        assert await harness.new_engine().find(handle.cluster) == handle

    async def test_an_unknown_cluster_is_not_found(self, harness: Harness) -> None:
        await harness.acquire_shared()
        for cluster in UNKNOWN_CLUSTERS:
            assert await harness.engine.find(cluster) is None, f"find({cluster!r})"

    async def test_a_cluster_is_found_after_its_agents_died_and_until_it_is_released(self, harness: Harness) -> None:
        handle = await harness.acquire()
        harness.kill_agent(handle.cluster, "algo-1")
        assert await harness.new_engine().find(handle.cluster) == handle
        await harness.engine.release(handle)
        assert await harness.engine.find(handle.cluster) is None
        assert await harness.new_engine().find(handle.cluster) is None

    async def test_a_handle_survives_json(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        again = msgspec.json.decode(msgspec.json.encode(handle), type=Handle)
        assert again == handle
        reader, writer = await harness.new_engine().connect(again, "algo-1")
        assert not reader.at_eof()
        writer.close()
        await writer.wait_closed()

    async def test_instance_types_have_each_its_name_and_a_size_that_can_be(self, harness: Harness) -> None:
        brought = harness.engine.instance_types()
        names = [kind.name for kind in brought]
        assert sorted(set(names)) == sorted(names), "two types have one name"
        rows = msgspec.to_builtins(brought)
        assert msgspec.convert(rows, tuple[InstanceType, ...]) == tuple(brought)

    async def test_the_longest_cluster_id_works(self, harness: Harness) -> None:
        handle = await harness.acquire(harness.request(cluster="f" * 32))
        assert await harness.engine.find("f" * 32) == handle

    async def test_the_id_of_a_released_cluster_is_refused(self, harness: Harness) -> None:
        request = harness.request()
        await harness.engine.release(await harness.acquire(request))
        with pytest.raises(RefusedError) as told:
            await harness.acquire(request)
        assert not told.value.transient
        assert harness.live_hosts(request.cluster) == set()
