"""Contract group C, stop: a stopped job is dead, with all its processes, and an outcome is final."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.testing.agent_client import AgentClient, AgentError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

PROCESS_TREE_SCRIPT = """
import os, signal, subprocess, sys
forever = "import signal; TOKEN\\nwhile True: signal.pause()"
python = sys.executable
subprocess.Popen([python, "-c", forever.replace("TOKEN", "child = {token!r}")])
subprocess.Popen([python, "-c", forever.replace("TOKEN", "own_session = {token!r}")], start_new_session=True)
nested = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
subprocess.run([python, "-c", nested, forever.replace("TOKEN", "grandchild = {token!r}")], check=True)
if {hidden}:
    subprocess.Popen([python, "-c", forever.replace("TOKEN", "hidden = {token!r}")], start_new_session=True, env={{}})
print("all born", flush=True)
while True:
    signal.pause()
"""
"""A job with a child, a child in a session of its own, a grandchild without a parent, and one without our mark."""


def process_tree_source(token: str, *, hidden: bool = True) -> str:
    """Write the source of a job that starts processes in every way in which one can be lost."""
    return PROCESS_TREE_SCRIPT.format(token=token, hidden=hidden)


class StopGroup:
    """Jobs are stopped by their agent, clusters by release, at each step."""

    async def test_a_stopped_job_is_dead_with_all_that_it_started(self, harness: Harness) -> None:
        token = secrets.token_hex(8)
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(process_tree_source(token))
            await agent.wait_for_log(job, b"all born")
            # The system shows the arguments of a new program a moment after its parent continues.
            await eventually(lambda: len(harness.command_lines_with(token)) >= 4, "all four are seen")
            await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
            record = (await agent.wait_for_outcome(job)).record
            assert record["cause"] == "stopped"
            await eventually(lambda: not harness.command_lines_with(token), "nothing of the job is alive")
        assert harness.live_hosts(handle.cluster) == {"algo-1"}

    async def test_stopping_twice_and_after_the_end_keeps_the_outcome(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("print('done')")
            record = (await agent.wait_for_outcome(job)).record
            for _ in range(2):
                # The agent may accept or refuse this; only the outcome matters.
                with contextlib.suppress(AgentError):
                    await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
            assert record["cause"] == "exit"
            assert (await agent.call("hello", protocol=1, epoch=1)).header["jobs"][job]["phase"] == "ended"
            assert b'"exit"' in await agent.read(job, host_layout.END_RECORD)

    async def test_a_job_that_ignores_the_polite_signal_is_killed_after_the_grace_period(
        self, harness: Harness
    ) -> None:
        token = secrets.token_hex(8)
        source = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{process_tree_source(token)}"
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(source)
            await agent.wait_for_log(job, b"all born")
            await agent.call("stop", job=job, lease=1, grace=0.2, cause="stopped")
            record = (await agent.wait_for_outcome(job)).record
        assert record["cause"] == "stopped"
        await eventually(lambda: not harness.command_lines_with(token), "nothing of the job is alive")

    async def test_release_ends_a_running_job_with_all_that_it_started(self, harness: Harness) -> None:
        token = secrets.token_hex(8)
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(process_tree_source(token))
            await agent.wait_for_log(job, b"all born")
            await harness.engine.release(handle)
        assert harness.command_lines_with(token) == []
        assert harness.leftovers(handle.cluster) == []

    async def test_release_after_the_agent_was_killed_ends_what_it_had_started(self, harness: Harness) -> None:
        token = secrets.token_hex(8)
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(process_tree_source(token, hidden=False))
            await agent.wait_for_log(job, b"all born")
        harness.kill_agent(handle.cluster, "algo-1")
        await harness.new_engine().release(handle)
        assert harness.command_lines_with(token) == []
        assert harness.leftovers(handle.cluster) == []

    @pytest.mark.parametrize("ticks", [0, 1, 2, 5, 20, 80])
    async def test_an_acquire_that_is_cancelled_can_be_released_or_finished(self, harness: Harness, ticks: int) -> None:
        request = harness.request(2)
        task = asyncio.create_task(harness.acquire(request))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if ticks % 2:
            await harness.acquire(request, engine=harness.new_engine())
            assert harness.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}
        handle = await harness.engine.find(request.cluster)
        if handle is not None:
            await harness.engine.release(handle)
        await eventually(lambda: harness.leftovers(request.cluster) == [], "nothing is left")

    @pytest.mark.parametrize("count", [1, 2, 3])
    async def test_a_generator_that_is_closed_after_any_step_leaves_what_release_finds(
        self, harness: Harness, count: int
    ) -> None:
        request = harness.request(3)
        steps = harness.handle_steps(request)
        first = None
        for _ in range(count):
            first = await anext(steps, first)  # hosts that come up at once may be in one handle
        await steps.aclose()
        assert first is not None
        assert first.cluster == request.cluster
        found = await harness.new_engine().find(request.cluster)
        assert found is not None
        await harness.engine.release(found)
        await eventually(lambda: harness.leftovers(request.cluster) == [], "nothing is left")

    async def test_release_while_acquire_is_under_way_wins(self, harness: Harness) -> None:
        request = harness.request(3)
        steps = harness.handle_steps(request)
        first = await anext(steps)
        await harness.new_engine().release(first)
        with contextlib.suppress(Exception):
            async for _ in steps:
                pass
        await eventually(lambda: harness.leftovers(request.cluster) == [], "nothing is left")
        assert await harness.engine.find(request.cluster) is None
