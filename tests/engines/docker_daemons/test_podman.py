"""The Docker engine at Podman's compatible socket, where Podman is installed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import podman
from jupyter_smx.testing.docker.images import PYTHON
from jupyter_smx.testing.groups.identity import IdentityGroup
from jupyter_smx.testing.groups.networking import NetworkingGroup
from jupyter_smx.testing.groups.observation import ObservationGroup
from jupyter_smx.testing.groups.stop import StopGroup
from jupyter_smx.testing.groups.transfer import last_json
from jupyter_smx.testing.groups.warm_start import WarmStartGroup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

pytestmark = [
    pytest.mark.heavy("podman"),
    pytest.mark.skipif(bool(podman.unavailable_reason()), reason=podman.unavailable_reason()),
]

MEET = """
import json, os, socket
print(json.dumps({
    "uid": os.getuid(),
    "apart": socket.gethostbyname("algo-1") != socket.gethostbyname("algo-2"),
    "data": open(os.path.join(os.environ["SM_CHANNEL_DATA"], "a.csv")).read(),
    "model": os.access(os.environ["SM_MODEL_DIR"], os.W_OK),
}))
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Docker]:
    from jupyter_smx.testing.docker.fixtures import connect  # noqa: PLC0415 - imports Docker's library

    # A short name: sockets of its containers lie below it.
    own = podman.Podman(Path(tempfile.mkdtemp(prefix="smx-podman-")))
    try:
        own.start()
        found = connect(own.host, ours=True, images=(PYTHON,))
        yield found
        found.client.close()
    finally:
        own.stop()


@pytest_asyncio.fixture
async def harness(tmp_path: Path, service: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    before = service.contents()
    harness = DockerHarness(tmp_path / "it's $(me) & 日本 100 %s" / "smx", service.host, PYTHON.name)
    yield harness
    await harness.close()
    assert service.contents().keys() <= before.keys()


async def test_a_cluster_at_podman_lives_and_leaves(harness: DockerHarness, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2")
    request = harness.request(2)
    handle = await harness.acquire(request)
    await harness.acquire(request)  # a second launch of the same cluster: a name that exists is no failure
    assert harness.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}
    [there] = (await harness.engine.provide_files(handle, "algo-2", [os.fspath(tmp_path / "a.csv")])).values()
    channels = [{"name": "data", "source": there, "mode": "FastFile"}]
    async with AgentClient(harness.engine, handle, "algo-2") as agent:
        seen = last_json(await agent.run_and_wait(MEET, channels=channels))
    assert seen == {"uid": users.unused_id(), "apart": True, "data": "1,2", "model": True}
    harness.run_docker("kill", f"jupyter-smx-{request.cluster}-algo-1")
    assert await harness.new_engine().observe_all([handle]) == [Observation.GONE]
    await harness.new_engine().release(handle)
    assert harness.leftovers(request.cluster) == []
    said = await harness.new_engine().exit_reason(request.cluster, "algo-1")
    assert said.startswith(
        "its container was ended from outside, by podman kill, with its daemon, or by a process in it. "
    )


async def test_a_name_that_is_somebody_elses_is_said_at_podman_too(harness: DockerHarness) -> None:
    request = harness.request()
    name = f"jupyter-smx-{request.cluster}-algo-1"
    theirs = harness.run_docker("create", "--name", name, harness.image)
    try:
        with pytest.raises(UnavailableError, match=f"another container has the name {name}"):
            await harness.acquire(request)
    finally:
        harness.run_docker("rm", theirs)


async def test_what_podman_would_take_and_not_do_is_refused(harness: DockerHarness) -> None:
    request = harness.request()
    request = replace(request, hosts=tuple(replace(plan, gpus=1) for plan in request.hosts))
    if (await harness.engine.doctor())["version"] < "5.4":
        with pytest.raises(RefusedError, match="does not give GPUs to containers"):
            await harness.acquire(request)
    from jupyter_smx.engines.docker.engine import DockerEngine  # noqa: PLC0415 - imports Docker's library

    engine = DockerEngine(data_dir=os.fspath(harness.folder / "a,b"), docker_host=harness.daemon)
    with pytest.raises(RefusedError, match="Podman cannot mount"):
        await engine.resolve_image(harness.image, lambda _words: None)


async def test_the_doctor_knows_podman(harness: DockerHarness) -> None:
    facts = await harness.engine.doctor()
    assert facts["kind"] == f"Podman {facts['version']}"
    assert facts["warm_pools_survive_a_restart_of_the_daemon"] is True


class TestContract:
    """Of the contract of engines what a daemon decides: names that are taken, networks, outages, ends of containers."""

    test_it_launches_once = IdentityGroup.test_acquires_behind_each_others_back_launch_once_and_agree
    test_its_hosts_meet = NetworkingGroup.test_the_leader_is_reached_at_its_announced_address
    test_an_outage_is_no_death = ObservationGroup.test_during_an_outage_nothing_is_known_and_nothing_is_gone
    test_a_release_wins = StopGroup.test_release_while_acquire_is_under_way_wins
    test_a_release_ends_orphans = StopGroup.test_release_after_the_agent_was_killed_ends_what_it_had_started
    test_a_host_ends_by_itself = WarmStartGroup.test_a_cluster_ends_by_itself_when_its_deadline_comes
