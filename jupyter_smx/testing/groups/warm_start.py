"""Contract group G, warm start: the second job starts at once and sees nothing of the first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.agent_client import AgentClient, AgentError, job_spec, new_job_id
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

LEFTOVERS_SCRIPT = """
import builtins, os, sys, tempfile, threading
SECRET = "of the first"
builtins.SECRET = sys.SECRET = SECRET
os.environ["SECRET"] = SECRET
os.chdir("/")
sys.path.insert(0, "/of/the/first")
os.umask(0o777 & 0o077)
for folder in (os.environ["SM_MODEL_DIR"], os.environ["SM_OUTPUT_DATA_DIR"], tempfile.gettempdir()):
    open(os.path.join(folder, "secret-of-the-first"), "w").write("secret")
"""

INSPECT_SCRIPT = """
import builtins, json, os, sys, tempfile
seen = [name for name, there in {
    "globals": "SECRET" in globals(), "builtins": hasattr(builtins, "SECRET"), "sys": hasattr(sys, "SECRET"),
    "environment": "SECRET" in os.environ, "sys.path": "/of/the/first" in sys.path,
}.items() if there]
for folder in (os.environ["SM_MODEL_DIR"], os.environ["SM_OUTPUT_DATA_DIR"], tempfile.gettempdir()):
    seen += [folder for name in os.listdir(folder) if "of-the-first" in name]
print(json.dumps({"seen": seen, "cwd": os.getcwd(), "pid": os.getpid()}))
"""

DEATHS = ("import os; os.kill(os.getpid(), 9)", "import os; os.abort()", "1 / 0")

CWD_SCRIPT = "import json, os\nprint(json.dumps({'cwd': os.getcwd(), 'pid': os.getpid()}))"


class WarmStartGroup:
    """Two jobs on one cluster."""

    async def test_the_second_job_starts_sooner_than_the_first(self, harness: Harness) -> None:
        begun = time.monotonic()
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("pass")
            await agent.wait_for_event("first_line", job)
            cold = time.monotonic() - begun
            await agent.wait_for_outcome(job)
            waits = []
            for _ in range(5):
                begun = time.monotonic()
                job = await agent.run("pass")
                await agent.wait_for_event("first_line", job)
                waits.append(time.monotonic() - begun)
                await agent.wait_for_outcome(job)
        assert sorted(waits)[2] < cold / 2

    async def test_a_job_sees_nothing_of_the_one_before(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            before = last_json(await agent.run_and_wait(CWD_SCRIPT))
            assert (await agent.run_and_wait(LEFTOVERS_SCRIPT)).record["exit_code"] == 0
            after = last_json(await agent.run_and_wait(INSPECT_SCRIPT))
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert after["seen"] == []
        assert after["cwd"] == before["cwd"]
        assert after["pid"] != before["pid"]

    async def test_a_known_job_is_not_started_twice(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        job, wish = new_job_id(), job_spec("print('once')")
        async with AgentClient(harness.engine, handle) as agent:
            for _ in range(3):
                await agent.call("run", job=job, lease=1, spec=wish)
            outcome = await agent.wait_for_outcome(job)
            await agent.call("run", job=job, lease=1, spec=wish)
            assert outcome.text == "once\n" == (await agent.read(job, "log")).decode()

    async def test_one_job_at_a_time(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("import signal\nprint('on', flush=True)\nsignal.pause()")
            await agent.wait_for_log(job, b"on")
            with pytest.raises(AgentError) as told:
                await agent.run("print('me too')")
            assert told.value.code == "Busy"
            await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
            await agent.wait_for_outcome(job)

    async def test_the_death_of_a_job_is_not_the_death_of_its_host(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            for death in DEATHS:
                await agent.run_and_wait(death)
                assert (await agent.run_and_wait("print('alive')")).text == "alive\n", death
                assert harness.live_hosts(handle.cluster) == {"algo-1"}, death

    async def test_a_cluster_ends_by_itself_when_its_deadline_comes(self, harness: Harness) -> None:
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            await agent.run_and_wait("pass")
            await agent.call("deadline", seconds=0.1)
        await eventually(lambda: not harness.live_hosts(handle.cluster), "the agent has ended", within=30)
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []
