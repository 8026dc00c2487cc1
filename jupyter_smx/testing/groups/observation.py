"""Contract group B, observation: an engine reports facts, and reports unknown ones as unknown."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.base import Observation
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.testing.harness import Harness

ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "the end of the cell": ("x = 1", {"cause": "exit", "exit_code": 0, "signal": None}),
    "an exception": ("1 / 0", {"cause": "exit", "exit_code": 1, "signal": None}),
    "SystemExit(3)": ("raise SystemExit(3)", {"cause": "exit", "exit_code": 3, "signal": None}),
    "os._exit(7)": ("import os; os._exit(7)", {"cause": "exit", "exit_code": 7, "signal": None}),
    "SIGKILL": ("import os; os.kill(os.getpid(), 9)", {"cause": "signal", "signal": 9}),
    "SIGSEGV": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", {"cause": "signal", "signal": 11}),
    "the time limit": ("import signal\nwhile True: signal.pause()", {"cause": "max_runtime"}),
}


async def check_observations(
    harness: Harness, handles: Sequence[Handle], expected: Sequence[Observation], engine: Engine | None = None
) -> None:
    """Check that an engine observes this within the time that the harness allows it after an agent's end."""
    answers: list[Observation] = []

    async def is_observed() -> bool:
        answers[:] = await (engine or harness.engine).observe_all(handles)
        return answers == [*expected]

    condition: Callable[[], bool | Awaitable[bool]] = is_observed
    with contextlib.suppress(AssertionError):  # the one below shows what differs
        await eventually(condition, within=harness.gone_within)
    assert answers == [*expected]


class ObservationGroup:
    """Verdicts of jobs, observations of clusters, refusals before any cost."""

    async def test_each_way_to_end_is_reported_as_it_was(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            for how, (source, expected) in ENDS.items():
                changes = {"max_run": 1, "grace": 1} if how == "the time limit" else {}
                record = (await agent.run_and_wait(source, **changes)).record
                assert {name: record[name] for name in expected} == expected, how

    async def test_an_exception_is_reported_with_type_message_line_and_traceback(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            outcome = await agent.run_and_wait("x = 1\nraise ValueError('the moon is\\nfull')")
        told = outcome.record["exception"]
        assert (told["type"], told["message"], told["line"]) == ("ValueError", "the moon is\nfull", 2)
        assert "ValueError" in told["traceback"]

    async def test_what_cannot_be_is_refused_before_anything_is_launched(self, harness: Harness) -> None:
        request = harness.invalid_request()
        with pytest.raises(RefusedError) as told:
            await harness.acquire(request)
        assert not told.value.transient
        assert told.value.field
        assert told.value.rule
        assert told.value.cure
        assert harness.launch_counts(request.cluster) == {}
        assert harness.leftovers(request.cluster) == []

    async def test_room_and_interval_are_numbers_that_a_controller_can_use(self, harness: Harness) -> None:
        slots = harness.engine.slots()
        assert slots is None or slots > 0
        assert harness.engine.observe_interval >= 1

    async def test_observing_nothing_gives_nothing(self, harness: Harness) -> None:
        assert await harness.engine.observe_all([]) == []

    async def test_observations_keep_the_order_of_the_handles(self, harness: Harness) -> None:
        alive, dead = await harness.acquire_shared(), await harness.acquire()
        harness.kill_agent(dead.cluster, "algo-1")
        gone, running = Observation.GONE, Observation.RUNNING
        await check_observations(harness, [dead, alive, dead, alive, alive], [gone, running, gone, running, running])
        await check_observations(harness, [alive, dead], [running, gone], harness.new_engine())

    async def test_a_cluster_of_which_one_host_died_is_gone(self, harness: Harness) -> None:
        handle = await harness.acquire(harness.request(2))
        assert await harness.engine.observe_all([handle]) == [Observation.RUNNING]
        harness.kill_agent(handle.cluster, "algo-2")
        assert harness.live_hosts(handle.cluster) == {"algo-1"}
        await check_observations(harness, [handle], [Observation.GONE])

    async def test_a_released_cluster_is_gone(self, harness: Harness) -> None:
        handle = await harness.acquire()
        await harness.engine.release(handle)
        assert await harness.engine.observe_all([handle]) == [Observation.GONE]

    async def test_a_cluster_that_never_was_is_gone(self, harness: Harness) -> None:
        await harness.acquire_shared()
        stranger = Handle(engine=harness.engine.name, cluster=secrets.token_hex(8))
        assert await harness.engine.observe_all([stranger]) == [Observation.GONE]

    async def test_a_cluster_that_the_world_forgot_is_gone_and_can_be_released(self, harness: Harness) -> None:
        handle = await harness.acquire()
        harness.purge_cluster(handle.cluster)
        await check_observations(harness, [handle], [Observation.GONE])
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []

    async def test_during_an_outage_nothing_is_known_and_nothing_is_gone(self, harness: Harness) -> None:
        handle, other = await harness.acquire_shared(), await harness.acquire()
        with harness.outage():
            assert await harness.engine.observe_all([handle, other]) == [Observation.UNKNOWN] * 2
            with pytest.raises(UnavailableError) as told:
                await harness.engine.find(handle.cluster)
            assert told.value.transient
        assert await harness.engine.observe_all([handle, other]) == [Observation.RUNNING] * 2
        assert await harness.engine.find(handle.cluster) == handle

    async def test_connecting_to_a_dead_agent_raises_unavailable(self, harness: Harness) -> None:
        handle = await harness.acquire()
        harness.kill_agent(handle.cluster, "algo-1")
        with pytest.raises(UnavailableError) as told:
            await harness.engine.connect(handle, "algo-1")
        assert told.value.transient

    async def test_connecting_to_a_host_that_never_was_raises_unavailable(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        with pytest.raises(UnavailableError):
            await harness.engine.connect(handle, "algo-9")
