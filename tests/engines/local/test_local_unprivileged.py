"""The local engine without any right, which is how most people run it."""

from __future__ import annotations

import nobody
import pytest

pytestmark = pytest.mark.skipif(not nobody.interpreter(), reason="not root, or no Python that user nobody may start")

PROLOGUE = """
import asyncio, json, os, sys
from pathlib import Path
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.local_harness import LocalHarness
"""

LIFE = """
async def main():
    world = LocalHarness(Path(sys.argv[1]) / "it's smx")
    request = world.request(2)
    try:
        handle = await world.acquire(request)
        async with AgentClient(world.new_engine(), handle, "algo-2") as agent:
            job = await agent.run(
                "import os; print(os.getuid()); d = os.path.join(os.environ['SM_MODEL_DIR'], 'locked'); os.mkdir(d)\\n"
                "open(os.path.join(d, 'file'), 'w').close(); os.chmod(d, 0o500)\\n"
                "os.chmod(os.environ['SM_MODEL_DIR'], 0)"
            )
            # Whether a host that was locked by its job goes on is the agent's affair; the release is the engine's.
            record = (await agent.wait_for_event("ended", job))["record"]
            mode = agent.hello["isolation"]["mode"]
        assert world.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}
        await world.new_engine().release(handle)
        log = (world.engine.spool_path(request.cluster, "algo-2") / job / "log").read_text()
        print(json.dumps([log.splitlines()[0], record["exit_code"], mode, world.leftovers(request.cluster)]))
    finally:
        await world.close()
asyncio.run(main())
"""

LOCKED = """
world = LocalHarness(Path(sys.argv[1]) / "smx")
os.chmod(world.folder, 0o500)
request = world.request()
try:
    asyncio.run(world.acquire(request))
except RefusedError as told:
    print(told.field, "Permission denied" in told.message, bool(told.cure), world.launch_counts(request.cluster))
"""


def test_a_cluster_lives_and_leaves_although_the_job_locked_its_folders() -> None:
    with nobody.home() as home:
        told = nobody.run(PROLOGUE + LIFE, str(home), home=str(home))
    assert told.startswith((f'["{nobody.NOBODY}", 0, ', '["0", 0, "namespace"'))
    assert told.endswith(", []]\n")


def test_a_data_folder_without_the_right_to_write_is_refused() -> None:
    with nobody.home() as home:
        assert nobody.run(PROLOGUE + LOCKED, str(home), home=str(home)) == "data_dir True True {}\n"
