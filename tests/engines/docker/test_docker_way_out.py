"""Network isolation at a real daemon that has an outside: a server beyond its machine, which hosts without it reach."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

SERVE = """
import socket
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
while True: server.accept()[0].close()
"""
MACHINE, BEYOND = "198.51.100.1", "198.51.100.2"
REACH = """
import socket
for address in {addresses!r}:
    try:
        socket.create_connection(address, timeout=2).close()
        print("reached")
    except OSError:
        print("not reached")
"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    if not docker.pid or not all(map(shutil.which, ("nsenter", "ip"))):
        pytest.skip("an outside is made only for a daemon with a network of its own, with nsenter and ip")
    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


@pytest_asyncio.fixture
async def servers(harness: DockerHarness, docker: Docker) -> AsyncIterator[dict[str, int]]:
    """Let one listen on the daemon's machine, and one in a network that only this leads to; give their ports."""
    words = ("--entrypoint=python3", harness.image, "-u", "-c", SERVE)
    made = {
        network: harness.run_docker("run", "--detach", f"--network={network}", *words) for network in ("host", "none")
    }

    def ip(where: int, *words: str) -> None:
        subprocess.run(["nsenter", f"--net=/proc/{where}/ns/net", "ip", *words], check=True)  # noqa: S607 - see above

    try:
        there = int(harness.run_docker("inspect", "--format={{.State.Pid}}", made["none"]))
        ip(docker.pid, "link", "add", "outside", "type", "veth", "peer", "name", "eth0", "netns", str(there))
        for where, device, address in ((docker.pid, "outside", MACHINE), (there, "eth0", BEYOND)):
            ip(where, "address", "add", f"{address}/24", "dev", device)
            ip(where, "link", "set", device, "up")
        ip(there, "route", "add", "default", "via", MACHINE)
        for server in made.values():
            await eventually(lambda server=server: harness.run_docker("logs", server), "it listens")
        yield {network: int(harness.run_docker("logs", server)) for network, server in made.items()}
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            ip(docker.pid, "link", "delete", "outside")  # with its container it would go, a moment later
        harness.run_docker("rm", "--force", *made.values())


def gateway(harness: DockerHarness, network: str) -> str:
    """Give the address that the machine has in a network, or would have where it has none."""
    [config] = json.loads(harness.run_docker("network", "inspect", network))[0]["IPAM"]["Config"]
    return str(config.get("Gateway") or config["Subnet"].partition("/")[0].rpartition(".")[0] + ".1")


@pytest.mark.parametrize("isolated", [False, True])
async def test_hosts_reach_the_outside_or_with_network_isolation_do_not(
    harness: DockerHarness, servers: dict[str, int], *, isolated: bool
) -> None:
    handle = await harness.acquire(replace(harness.request(2), network_isolation=isolated))
    [network] = harness.networks(handle.cluster)
    addresses = [(BEYOND, servers["none"]), (gateway(harness, network), servers["host"])]
    async with AgentClient(harness.engine, handle) as agent:
        beyond, machine = (await agent.run_and_wait(REACH.format(addresses=addresses))).text.splitlines()
    assert beyond == ("not reached" if isolated else "reached")
    # What an older daemon leaves open is said of each host.
    is_open = not isolated or any("servers of this machine" in words for words in handle.hosts[0].given_up)
    assert machine == ("reached" if is_open else "not reached")
