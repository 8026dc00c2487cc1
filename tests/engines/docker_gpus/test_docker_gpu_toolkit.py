"""GPUs on their way through a real daemon: what a host asks for, its container has, and nothing else.

The daemon, ``runc`` and the device files are real; toolkit, driver and GPUs are
:mod:`jupyter_smx.testing.docker.gpu_toolkit`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import dockerd, fixtures, gpu_toolkit, images
from jupyter_smx.testing.docker.dockerd import Dockerd
from jupyter_smx.testing.docker.images import TestImage
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.testing.docker.harness import DockerHarness

CARDS = [f"GPU-{number:08x}-0000" for number in (0xA, 0xB, 0xC)]
CUDA = TestImage(
    "cuda",
    "asks for all GPUs, as images of CUDA do",
    images.PYTHON.layers,
    {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES=all"]},
)
LOOK = """
import json, os
names = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
for name in names:
    os.close(os.open(f"/dev/{name}", os.O_RDWR))
print(json.dumps([os.environ["NVIDIA_VISIBLE_DEVICES"], os.environ["SM_NUM_GPUS"], names]))
"""


@pytest.fixture(scope="module")
def gpu_dockerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    why = dockerd.unavailable_reason() or gpu_toolkit.unavailable_reason()
    if why:
        fixtures.skip_or_fail(why)
    toolkit = tmp_path_factory.mktemp("toolkit")
    options = gpu_toolkit.install(toolkit, CARDS)
    daemon = Dockerd(fixtures.session_folder() / "gpus", *options, apart=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{toolkit}:{os.environ['PATH']}")
        daemon.start(tied=True)
    try:
        fixtures.connect(daemon.host, ours=True, images=(CUDA,)).client.close()
        yield daemon
    finally:
        daemon.remove()


@pytest_asyncio.fixture
async def harness(tmp_path: Path, gpu_dockerd: Dockerd) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", gpu_dockerd.host, CUDA.name)
    yield harness
    await harness.close()


def with_gpus(request: ClusterRequest, *devices: tuple[int, ...]) -> ClusterRequest:
    plans = zip(request.hosts, devices, strict=True)
    hosts = [replace(plan, gpus=len(own), devices=own, instance_type="lab.gpu") for plan, own in plans]
    return replace(request, hosts=tuple(hosts))


async def seen(harness: DockerHarness, *devices: tuple[int, ...]) -> list[Any]:
    """Look for GPUs on each host of a cluster whose hosts were given these."""
    handle = await harness.acquire(with_gpus(harness.request(len(devices)), *devices))
    found = []
    for host in handle.hosts:
        async with AgentClient(harness.engine, handle, host.host) as agent:
            found.append(last_json(await agent.run_and_wait(LOOK)))
    return found


async def test_each_host_has_the_gpus_that_are_its_own_and_one_without_has_none(harness: DockerHarness) -> None:
    assert await seen(harness, (0,), (1, 2), ()) == [
        ["0", "1", ["nvidia0"]],
        ["1,2", "2", ["nvidia1", "nvidia2"]],
        ["void", "0", []],
    ]


async def test_gpus_that_the_controller_was_given_are_handed_on_by_their_names(
    harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{CARDS[2]},0")
    harness.engine = harness.new_engine()
    assert await seen(harness, (0,), (1,)) == [[CARDS[2], "1", ["nvidia2"]], ["0", "1", ["nvidia0"]]]


async def test_a_gpu_that_the_machine_has_not_is_refused_for_good_and_nothing_stays(harness: DockerHarness) -> None:
    wish = with_gpus(harness.request(), (3,))
    with pytest.raises(RefusedError, match=r"cannot give GPUs to hosts of lab\.gpu \(.*3: unknown device") as told:
        await harness.acquire(wish)
    assert not told.value.transient
    assert harness.containers(wish.cluster) == []


async def test_what_a_job_uses_of_its_hosts_gpus_is_measured(harness: DockerHarness) -> None:
    handle = await harness.acquire(with_gpus(harness.request(), (1, 2)))
    async with AgentClient(harness.engine, handle) as agent:
        job = await agent.run("import signal; signal.pause()")
        figures = (await agent.wait_for_event("sampled", job, lambda one: "gpu_percent" in one["now"]))["now"]
        await agent.call("stop", job=job, lease=1, grace=5, cause="stopped")
        await agent.wait_for_event("ended", job)
        rows = (await agent.read(job, "samples")).decode().splitlines()
    assert figures["gpu_percent"] == 2 * gpu_toolkit.BUSY_PERCENT + 3
    assert figures["gpu_memory_bytes"] == 5 * gpu_toolkit.USED_BYTES
    assert any(CARDS[1] in row and CARDS[2] in row and CARDS[0] not in row for row in rows)
    assert any("whole GPUs" in row for row in rows)
