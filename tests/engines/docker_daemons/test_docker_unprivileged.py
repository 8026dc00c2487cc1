"""The Docker engine of a controller that is not root and may use the daemon's socket, as most people run it."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import nobody
import pytest

if TYPE_CHECKING:
    from jupyter_smx.testing.docker.fixtures import Docker

pytestmark = pytest.mark.skipif(not nobody.interpreter(), reason="not root, or no Python that user nobody may start")

JOB = """
import json, os, socket
model = os.environ["SM_MODEL_DIR"]
os.mkdir(os.path.join(model, "locked"))
open(os.path.join(model, "locked", "file"), "w").close()
os.chmod(os.path.join(model, "locked"), 0o500)
os.chmod(model, 0)
there = os.path.join(os.environ["SM_CHANNEL_DATA"], "mine.csv")
print(json.dumps({
    "who": [os.getuid(), os.getgid()],
    "data": open(there).read(),
    "other": socket.gethostbyname("algo-1") != socket.gethostbyname("algo-2"),
}))
"""
LIFE = """
import asyncio, json, os, sys
from pathlib import Path
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker.images import PYTHON
from jupyter_smx.testing.docker.harness import DockerHarness

home, daemon, job = Path(sys.argv[1]), *sys.argv[2:]

async def main():
    world = DockerHarness(home / "it's smx", daemon, PYTHON.name)
    source = home / "mine.csv"
    source.write_text("1,2")
    source.chmod(0o600)
    request = world.request(2)
    try:
        handle = await world.acquire(request)
        [there] = (await world.engine.provide_files(handle, "algo-2", [str(source)])).values()
        channels = [{"name": "data", "source": there, "mode": "FastFile"}]
        async with AgentClient(world.new_engine(), handle, "algo-2") as agent:
            ended = await agent.run_and_wait(job, channels=channels)
            seen = json.loads(ended.text.splitlines()[0])  # the log then names what was left out
        with world.proxy.delay(b"/info") as asked:
            await world.engine.resolve_image(world.image, print)
        seen["asked again"] = asked.is_set()
        seen["launches"] = world.launch_counts(request.cluster)
        await world.new_engine().release(handle)
        seen["left"] = world.leftovers(request.cluster)
        print(json.dumps(seen))
    finally:
        await world.close()

asyncio.run(main())
"""


def test_a_cluster_of_a_user_who_is_not_root_lives_and_leaves(docker: Docker) -> None:
    from jupyter_smx.testing.docker.harness import SocketProxy  # noqa: PLC0415 - imports Docker's library

    # The daemon's own socket is root's, in a folder that may be closed to others.
    door = SocketProxy(Path(f"/tmp/smx-door-{secrets.token_hex(4)}.sock"), docker.host)  # noqa: S108 - no other name is short
    try:
        door.path.chmod(0o666)
        with nobody.home() as home:
            told = nobody.run(LIFE, str(home), f"unix://{door.path}", JOB, home=str(home))
    finally:
        door.close()
    assert json.loads(told) == {
        "who": [nobody.NOBODY, nobody.NOBODY],
        "data": "1,2",
        "other": True,
        "asked again": False,
        "launches": {"algo-1": 1, "algo-2": 1},
        "left": [],
    }
