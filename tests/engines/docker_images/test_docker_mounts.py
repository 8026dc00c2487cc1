"""What hosts see of the machine: allowed mounts, volumes of the daemon, the size of /dev/shm, the machine's servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace
from traitlets import TraitError

from jupyter_smx.engines.docker.containers.allowed_mounts import parse_allowed, resolve_mount
from jupyter_smx.engines.docker.engine import DockerEngine
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.spec.mount import Mount
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

NOW, DAY = 2e9, 86_400
VOLUME = "smx-test-cache"
TRAIT = "DockerEngine.allowed_mounts"
LOOK = """
import os
print(open("/data/a.csv").read(), open("/one.csv").read())
for path in ("/data/new", "/scratch/new", "/cache/new"):
    try:
        open(path, "w").write("new")
        print("wrote", path)
    except OSError as error:
        print(type(error).__name__, error.errno == 30, path)
print(os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize)
"""
SERVE = """
import socket
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
while True: server.accept()[0].close()
"""
REACH = """
import socket
try:
    socket.create_connection(("host.docker.internal", {port}), timeout=5).close()
    print("reached")
except OSError:
    print("not reached")
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make folders of the machine with a file, readable for each user."""
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.csv").write_text("a")
    (tmp_path / "secret").mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "inner").symlink_to(folder / "sub")
    return folder


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


@pytest.fixture
def volume(docker: Docker) -> Iterator[str]:
    docker.client.volumes.create(VOLUME)
    yield VOLUME
    docker.client.volumes.get(VOLUME).remove(force=True)


def allow(harness: DockerHarness, *allowed: str) -> None:
    harness.traits["allowed_mounts"] = list(allowed)
    harness.engine = harness.new_engine()


def test_a_path_below_an_allowed_one_and_a_named_volume_are_allowed(data: Path) -> None:
    allowed = [parse_allowed(str(data)), parse_allowed("cache:rw")]
    for source, path in ((data, data), (data / "sub", data / "sub"), (data / "inner", data / "sub")):
        mount = Mount(source=os.fspath(source), target="/data")
        assert resolve_mount(mount, allowed) == replace(mount, source=os.fspath(path))
    cache = Mount(source="cache", target="/cache", writable=True)
    assert resolve_mount(cache, allowed) == cache


def test_a_path_through_a_link_is_allowed_where_the_allowed_folder_is_one(tmp_path: Path, data: Path) -> None:
    (tmp_path / "disk").symlink_to(data)
    mount = Mount(source=f"{tmp_path}/disk/sub", target="/data")
    assert resolve_mount(mount, [parse_allowed(f"{tmp_path}/disk")]).source == f"{data}/sub"


@pytest.mark.parametrize(
    ("source", "writable", "sentence"),
    [
        ("/", False, "/ is not allowed"),
        ("{}/../secret", False, "secret, is not allowed"),
        ("{}/link", False, "data/link, which is .*/secret, is not allowed"),
        ("{}more", False, "datamore is not allowed"),
        ("other", False, "other is not allowed"),
        ("{}", True, "data may only be read"),
        ("{}/sub", True, "data/sub may only be read"),
        ("{}/gone", False, "there is no .*/data/gone"),
    ],
)
def test_another_mount_is_refused_and_the_trait_is_named(
    data: Path, source: str, writable: bool, sentence: str
) -> None:
    allowed = [parse_allowed(str(data)), parse_allowed("cache:rw")]
    mount = Mount(source=source.format(data), target="/data", writable=writable)
    with pytest.raises(RefusedError, match=sentence) as refused:
        resolve_mount(mount, allowed)
    assert (TRAIT in f"{refused.value.rule} {refused.value.cure}") is not source.endswith("gone")
    assert refused.value.cure


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(RefusedError, match=f"{TRAIT} allows no mounts. Add it to c.{TRAIT} in jupyter_smx_config.py"):
        DockerEngine().check_mounts([Mount(source="/data", target="/data")])


@pytest.mark.parametrize("text", ["data/sub", "", ":rw", "/a:/b", "a:b:rw"])
def test_the_trait_has_paths_and_names_of_volumes_only(text: str) -> None:
    with pytest.raises(TraitError, match="neither an absolute path nor the name of a volume"):
        DockerEngine(allowed_mounts=[text])


async def test_a_host_sees_its_mounts_and_may_write_only_where_it_is_said(
    harness: DockerHarness, data: Path, tmp_path: Path, volume: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    allow(harness, os.fspath(data), f"{scratch}:rw", f"{volume}:rw")
    mounts = (
        Mount(source=os.fspath(data), target="/data"),
        Mount(source=f"{data}/a.csv", target="/one.csv"),
        Mount(source=os.fspath(scratch), target="/scratch", writable=True),
        Mount(source=volume, target="/cache"),
    )
    harness.engine.check_mounts(mounts)
    request = replace(harness.request(), mounts=mounts, shm_size=96 << 20)
    handle = await harness.acquire(request)
    async with AgentClient(harness.engine, handle) as agent:
        said = (await agent.run_and_wait(LOOK)).text.splitlines()
    assert said == ["a a", "OSError True /data/new", "wrote /scratch/new", "OSError True /cache/new", str(96 << 20)]
    assert (scratch / "new").read_text() == "new"
    assert not (data / "new").exists()
    assert harness.engine.plan(request) == harness.actual_plan(handle.cluster)
    await harness.engine.release(handle)
    assert (scratch / "new").exists(), "what is mounted stays"


async def test_a_volume_that_is_not_there_is_not_created(harness: DockerHarness, docker: Docker) -> None:
    allow(harness, "smx-test-missing")
    request = replace(harness.request(), mounts=(Mount(source="smx-test-missing", target="/cache"),))
    with pytest.raises(RefusedError, match=r"there is no volume 'smx-test-missing'.*docker volume create"):
        await harness.acquire(request)
    assert not docker.client.volumes.list(filters={"name": "smx-test-missing"})


async def test_more_shared_memory_than_memory_is_refused(harness: DockerHarness) -> None:
    request = replace(harness.request(), shm_size=4 << 30)
    hosts = tuple(replace(host, memory=2 << 30) for host in request.hosts)
    with pytest.raises(RefusedError, match=r"--shm-size: 4.0 GiB is more than .* has.* which is 2.0 GiB"):
        await harness.acquire(replace(request, hosts=hosts))


async def test_a_host_reaches_servers_of_the_machine_by_dockers_name_of_it_unless_it_is_isolated(
    harness: DockerHarness,
) -> None:
    words = ("--detach", "--network=host", "--entrypoint=python3", harness.image, "-u", "-c", SERVE)
    server = harness.run_docker("run", *words)
    try:
        await eventually(lambda: harness.run_docker("logs", server), "it listens")
        port = harness.run_docker("logs", server)
        for isolated, answer in ((False, "reached"), (True, "not reached")):
            handle = await harness.acquire(replace(harness.request(), network_isolation=isolated))
            async with AgentClient(harness.engine, handle) as agent:
                assert (await agent.run_and_wait(REACH.format(port=port))).text == f"{answer}\n"
    finally:
        harness.run_docker("rm", "--force", server)


async def test_a_volume_of_an_image_is_promised_only_where_jobs_can_write(
    harness: DockerHarness, docker: Docker, tmp_path: Path
) -> None:
    lines = (f"FROM {images.PYTHON.name}", "RUN mkdir /own /open && chmod 777 /open", 'VOLUME ["/own", "/open"]', "")
    (tmp_path / "Dockerfile").write_text("\n".join(lines))
    image = await harness.engine.build_image(str(tmp_path), lambda _step: None)
    handle = await harness.acquire(replace(harness.request(), image=image.id))
    closed, remaining = sorted(handle.hosts[0].given_up, reverse=True)
    assert closed.startswith("Its jobs cannot write to /own: ")
    assert remaining.startswith("Files that a job writes to /open remain for later jobs")
    await harness.engine.release(handle)
    docker.client.images.remove(image.id, force=True)
