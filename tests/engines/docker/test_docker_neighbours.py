"""A real daemon with neighbours: networks of theirs leave no room, or they have made something of what is ours."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.docker.containers.isolation import SHARED_NETWORK
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import dockerd, fixtures, images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

FACE = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
ONLY = "--default-address-pool=base=198.51.100.0/24,size=24"


@pytest.fixture
def full() -> Iterator[Docker]:
    """Give a daemon whose only addresses its default network has."""
    if why := dockerd.unavailable_reason():
        fixtures.skip_or_fail(why)
    daemon = dockerd.Dockerd(fixtures.session_folder() / "full", ONLY, apart=True)
    daemon.start(tied=True)
    try:
        found = fixtures.connect(daemon.host, ours=True, images=[images.PYTHON])
        yield found
        found.client.close()
    finally:
        daemon.remove()


@asynccontextmanager
async def at(docker: Docker, folder: Path, **traits: object) -> AsyncIterator[DockerHarness]:
    """Give an engine there."""
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(folder / "smx", docker.host, images.PYTHON.name, **traits)
    try:
        yield harness
    finally:
        await harness.close()


async def test_one_host_shares_the_default_network_and_says_so_and_several_are_refused(
    full: Docker, tmp_path: Path
) -> None:
    async with at(full, tmp_path, separate_network=True) as harness:
        handle = await harness.acquire()
        assert [host.given_up for host in handle.hosts] == [(SHARED_NETWORK,)]
        assert await harness.new_engine().find(handle.cluster) == handle
        async with AgentClient(harness.engine, handle) as agent:
            assert "'eth0'" in (await agent.run_and_wait(FACE)).text
            assert (await agent.run_and_wait("print('warm')", lease=2)).text == "warm\n"
        await harness.engine.release(handle)
        with pytest.raises(UnavailableError, match="did not get its network"):
            await harness.acquire(harness.request(2))
        assert harness.run_docker("ps", "-aq") == ""


async def test_a_network_goes_with_its_cluster_also_from_who_was_let_into_it(docker: Docker, tmp_path: Path) -> None:
    async with at(docker, tmp_path, separate_network=True) as harness:
        handle = await harness.acquire()
        network = f"jupyter-smx-{handle.cluster}"
        guest = harness.run_docker("run", "-d", f"--network={network}", images.PYTHON.name, "sleep", "600")
        try:
            await harness.engine.release(handle)
            assert harness.leftovers(handle.cluster) == []
            assert harness.run_docker("inspect", "--format={{.State.Status}}", guest) == "running"
        finally:
            harness.run_docker("rm", "-f", guest)


async def test_what_somebody_made_of_a_host_is_theirs(docker: Docker, tmp_path: Path) -> None:
    image = f"smx-test/of-a-host:{secrets.token_hex(4)}"
    async with at(docker, tmp_path) as harness:
        handle = await harness.acquire()
        [host] = harness.containers(handle.cluster)
        harness.run_docker("commit", host, image)
        theirs = harness.run_docker("create", image, "sleep", "600")
        try:
            assert await harness.new_engine().find(handle.cluster) == handle
            await harness.engine.release(handle)
            assert await harness.new_engine().sweep(list) == []
            assert harness.run_docker("ps", "-aq", "--no-trunc") == theirs
        finally:
            harness.run_docker("rm", "-f", theirs)
            harness.run_docker("rmi", image)
