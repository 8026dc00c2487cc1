"""Scripts of hosts that meet over the network of their machines, and a way to run one on all hosts of a cluster."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from remote_harness import RemoteHarness

WORKERS = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
SEEN = """
import json, os, socket
hosts = json.loads(os.environ["SM_HOSTS"])
workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
print(json.dumps({
    "host_name": socket.gethostname(),
    "names": {host: socket.gethostbyname(host) for host in hosts},
    "leader": socket.gethostbyname(os.environ["MASTER_ADDR"]),
    "workers": [socket.gethostbyname(worker.rpartition(":")[0]) for worker in workers],
    "interface": os.environ["SM_NETWORK_INTERFACE_NAME"],
}))
"""
REDUCE = """
import json, os, socket, time
PER_HOST = 2
hosts = json.loads(os.environ["SM_HOSTS"])
leader = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
size = PER_HOST * len(hosts)

def receive(stream):
    with stream.makefile() as lines:
        return float(lines.readline())

def reduce(rank, value):
    if rank:
        end = time.monotonic() + 30
        while True:
            try:
                stream = socket.create_connection(leader, timeout=30)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        with stream:
            stream.sendall(b"%r\\n" % value)
            return receive(stream)
    with socket.create_server(("", leader[1])) as server:
        server.settimeout(30)
        streams = [server.accept()[0] for _ in range(size - 1)]
        total = value + sum(map(receive, streams))
        for stream in streams:
            with stream:
                stream.sendall(b"%r\\n" % total)
        return total

pipes = []
for local in range(PER_HOST):
    ours, theirs = os.pipe()
    if not os.fork():
        try:
            rank = PER_HOST * hosts.index(os.environ["SM_CURRENT_HOST"]) + local
            os.write(theirs, json.dumps([rank, reduce(rank, 10.0 ** rank)]).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    pipes.append(ours)
print(json.dumps([json.loads(os.fdopen(pipe).read()) for pipe in pipes]))
"""
"""What ranks of PyTorch do: two on each host come to the port of the first one, and add up their values."""


async def run_on_all(harness: RemoteHarness, count: int, source: str, **changes: Any) -> dict[str, Any]:
    """Run a script on all hosts of a cluster at once; gives what each printed last, by the host's machine."""
    handle = await harness.acquire(harness.request(count))
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(AgentClient(harness.engine, handle, host.host)) for host in handle.hosts
        ]
        ends = await asyncio.gather(*(agent.run_and_wait(source, **changes) for agent in agents))
    assert [end.record["exit_code"] for end in ends] == [0] * count, "\n".join(end.text for end in ends)
    machines = [str(host.data["machine"]) for host in handle.hosts]
    assert len(set(machines)) == count
    return {machine: last_json(end) for machine, end in zip(machines, ends, strict=True)}
