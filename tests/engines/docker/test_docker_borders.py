"""At a real daemon: clusters do not meet, containers end while the disk is away, and other machines are refused."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import dockerd, images
from jupyter_smx.testing.docker.dockerd import Dockerd
from jupyter_smx.testing.docker.fixtures import skip_or_fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
SERVE = """
import socket
with socket.create_server(("", 7777)) as server:
    print("listens at", socket.gethostbyname("algo-1"), flush=True)
    server.accept()[0].sendall(b"met")
"""
VISIT = """
import socket
try:
    with socket.create_connection(({address!r}, 7777), timeout=3) as line:
        print(line.recv(3).decode())
except OSError as problem:
    print("nobody", socket.gethostbyname("algo-1") != {address!r})
"""

NAMES = """
import fcntl, pathlib, socket, struct
rows = [line.split() for line in pathlib.Path("/etc/resolv.conf").read_text().splitlines()]
print(*(row[1] for row in rows if row[:1] == ["nameserver"]))
print(socket.gethostbyname("algo-1"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    print(socket.inet_ntoa(fcntl.ioctl(line, 0x8915, struct.pack("256s", b"eth0"))[20:24]))  # SIOCGIFADDR
print(socket.gethostbyname("host.docker.internal"))
"""


@pytest_asyncio.fixture
async def harness(nasty_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(nasty_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


async def test_hosts_with_separate_networks_find_no_other_cluster(harness: DockerHarness) -> None:
    harness.traits["separate_network"] = True
    harness.engine = harness.new_engine()
    one, two = await harness.acquire(), await harness.acquire()
    assert len({*harness.networks(one.cluster), *harness.networks(two.cluster)}) == 2
    async with AgentClient(harness.engine, one) as serving, AgentClient(harness.engine, two) as visiting:
        job = await serving.run(SERVE)
        await serving.wait_for_log(job, b"\n")
        address = (await serving.read(job, "log")).decode().split()[-1]
        assert (await visiting.run_and_wait(VISIT.format(address=address))).text == "nobody True\n"
        assert (await visiting.run_and_wait(VISIT.format(address="algo-1"), lease=2)).text == "nobody True\n"
        await serving.call("stop", job=job, lease=1, grace=0, cause="stopped")
        await serving.wait_for_outcome(job)
    for handle in (one, two):
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []


async def test_a_single_host_resolves_names_as_a_container_of_docker_run(harness: DockerHarness) -> None:
    handle = await harness.acquire()
    plain = harness.run_docker("run", "--rm", harness.image, "cat", "/etc/resolv.conf")
    async with AgentClient(harness.engine, handle) as agent:
        said = (await agent.run_and_wait(NAMES)).text
    servers, own, face, machine = said.splitlines()
    assert servers.split() == [row.split()[1] for row in plain.splitlines() if row.startswith("nameserver")]
    assert own == face
    assert machine != "127.0.0.1"
    await harness.engine.release(handle)
    assert harness.leftovers(handle.cluster) == []


async def test_containers_end_while_the_data_folder_is_away_and_the_rest_when_it_is_back(
    harness: DockerHarness,
) -> None:
    handle = await harness.acquire(harness.request(2))
    away = harness.folder.with_name("away")
    harness.folder.rename(away)
    harness.folder.touch()
    try:
        with pytest.raises(UnavailableError, match="cannot be recorded") as told:
            await harness.engine.release(handle)
        assert (told.value.field, told.value.transient) == ("data_dir", True)
        assert harness.containers(handle.cluster) == []
        assert harness.networks(handle.cluster) == []
    finally:
        harness.folder.unlink()
        away.rename(harness.folder)
    await harness.engine.release(handle)
    assert harness.leftovers(handle.cluster) == []
    assert await harness.engine.find(handle.cluster) is None


class Covered(Dockerd):
    """A daemon that sees something else at some places of this machine, as one does that runs in another."""

    def __init__(self, folder: Path, covers: dict[str, str], *options: str) -> None:
        super().__init__(folder, *options, apart=True)
        self.covers = covers

    def command(self) -> list[str]:
        mounts = " && ".join(f"mount {what} '{place}'" for place, what in self.covers.items())
        return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *super().command()]


@pytest.fixture
def covered(tmp_path: Path) -> Iterator[Callable[..., DockerHarness]]:
    why = dockerd.unavailable_reason()
    if why:
        skip_or_fail(why)
    daemons: list[Dockerd] = []

    def start(covers: dict[str, str], *options: str) -> DockerHarness:
        from docker import DockerClient  # noqa: PLC0415 - a heavy client, which most tests do not need

        from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

        # Not in the checkout: the users of a daemon that maps them may not enter everywhere where root may.
        daemon = Covered(Path(f"/var/lib/smx-{os.getpid()}"), covers, *options)
        daemons.append(daemon)
        daemon.start(tied=True)
        with contextlib.closing(DockerClient(base_url=daemon.host, timeout=60)) as client:
            images.load(client, [images.PYTHON])
        return DockerHarness(tmp_path / "smx", daemon.host, images.PYTHON.name)

    (tmp_path / "smx").mkdir()
    yield start
    for daemon in daemons:
        daemon.remove()


async def refusal(harness: DockerHarness) -> RefusedError:
    for question in (harness.engine.resolve_image(harness.image, lambda _words: None), harness.acquire()):
        with pytest.raises(RefusedError) as told:
            await question
        assert (told.value.field, told.value.transient) == ("docker_host", False)
        assert told.value.value == f"unix://{harness.proxy.path}"
        assert told.value.rule
    assert harness.run_docker("ps", "-aq") == ""
    assert [*(harness.folder / "clusters").iterdir()] == []
    await harness.close()
    return told.value


async def test_a_daemon_that_has_other_folders_is_refused_before_anything_is_launched(
    covered: Callable[..., DockerHarness], tmp_path: Path
) -> None:
    harness = covered({os.fspath(tmp_path / "smx"): "-t tmpfs none"})
    told = await refusal(harness)
    assert "bind source path does not exist" in told.message
    assert "not in a virtual machine" in told.cure


@pytest.mark.skipif(not all(path.exists() for path in SUBORDINATE), reason="there are no such files to cover")
async def test_a_daemon_that_maps_users_is_refused_before_anything_is_launched(
    covered: Callable[..., DockerHarness], tmp_path: Path
) -> None:
    for path in SUBORDINATE:
        (tmp_path / path.name).write_text("nobody:200000:65536\n")
    binds = {os.fspath(path): f"--bind '{tmp_path / path.name}'" for path in SUBORDINATE}
    told = await refusal(covered(binds, "--userns-remap=nobody:nogroup"))
    assert "Permission denied" in told.message
    assert "userns-remap" in told.cure
