"""Contract group J, networking: hosts of one job reach each other at the addresses of SageMaker's variables."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

HOSTS = ("algo-1", "algo-2")
PATIENCE = 30
"""Seconds in which the other host has begun and is reached."""

MESSAGE_FUNCTIONS = """
import json, os, socket, time

def say(host, port, word):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=1) as there:
                there.sendall(word.encode())
                there.shutdown(socket.SHUT_WR)
                return heard(there)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)

def heard(there):
    with there.makefile() as words:
        return words.read()

def listening(port):
    server = socket.create_server(("", int(port)))
    server.settimeout(PATIENCE)
    return server

def answer(server, word):
    with server.accept()[0] as there:
        said = heard(there)
        there.sendall(word.encode())
        return said
"""
"""Code before a script: each host sends one word, at an address and a port."""

LEADER_SCRIPT = """
me, (host, port) = os.environ["SM_CURRENT_HOST"], (os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT"))
if json.loads(os.environ["SM_TRAINING_ENV"])["is_master"]:
    with listening(port) as server:
        print(json.dumps(["leads", answer(server, me)]))
else:
    print(json.dumps(["follows", say(host, port, me)]))
"""
"""As PyTorch's processes meet: the leader listens on all addresses at one port, the others come there."""

PEER_SCRIPT = """
import threading
config = json.loads(os.environ["TF_CONFIG"])
workers, mine = config["cluster"]["worker"], config["task"]["index"]
came = []
with listening(workers[mine].rpartition(":")[2]) as server:
    host = threading.Thread(target=lambda: came.append(answer(server, str(mine))))
    host.start()
    met = [say(*at.rsplit(":", 1), str(mine)) for number, at in enumerate(workers) if number != mine]
    host.join()
print(json.dumps([mine, met, came]))
"""
"""As TensorFlow's workers meet: each one listens at the port that all know, and comes to each other one."""


async def run_on_all(harness: Harness, source: str, **changes: Any) -> list[object]:
    """Run a script on two hosts at once, and return the last output of each."""
    handle = await harness.acquire(harness.request(len(HOSTS)))
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(AgentClient(harness.engine, handle, host)) for host in HOSTS]
        script = f"{MESSAGE_FUNCTIONS.replace('PATIENCE', str(PATIENCE))}{source}"
        jobs = [await agent.run(script, **changes) for agent in agents]
        ends = await asyncio.gather(*(agent.wait_for_outcome(job) for agent, job in zip(agents, jobs, strict=True)))
    said = "\n".join(end.text for end in ends)
    assert [end.record["exit_code"] for end in ends] == [0] * len(HOSTS), said
    return [last_json(end) for end in ends]


class NetworkingGroup:
    """Network requirements of distributed scripts, whatever starts them."""

    async def test_the_leader_is_reached_at_its_announced_address(self, harness: Harness) -> None:
        assert await run_on_all(harness, LEADER_SCRIPT) == [["leads", "algo-2"], ["follows", "algo-1"]]

    async def test_each_worker_is_reached_at_its_announced_address(self, harness: Harness) -> None:
        flag = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
        assert await run_on_all(harness, PEER_SCRIPT, hyperparameters=flag) == [[0, ["1"], ["1"]], [1, ["0"], ["0"]]]
