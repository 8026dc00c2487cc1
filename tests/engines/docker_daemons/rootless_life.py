"""The Docker engine of an ordinary user at that user's daemon: ``test_rootless.py`` runs this file as that user.

Any user may run it at their own daemon: ``DOCKER_HOST=unix://… python -m pytest`` with the path of this file.
Its tests share a cluster of two hosts, since such daemons take long to make one; the last test ends it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.engines.base import Observation
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker.images import NO_PYTHON, PYTHON
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups import networking
from jupyter_smx.testing.groups.stop import process_tree_source
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.model.records.cluster import Handle
    from jupyter_smx.testing.docker.harness import DockerHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOB = """
import json, os
there = os.path.join(os.environ["SM_CHANNEL_DATA"], "mine.csv")
locked = os.path.join(os.environ["SM_MODEL_DIR"], "locked")
os.mkdir(locked)
open(os.path.join(locked, "file"), "w").close()
os.chmod(locked, 0o500)
print(json.dumps({
    "who": [os.getuid(), os.getgid()], "data": open(there).read(), "may write": os.access(there, os.W_OK)
}))
"""


class Pair(NamedTuple):
    """Two hosts, and the world in which they run."""

    world: DockerHarness
    request: ClusterRequest
    handle: Handle


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    from jupyter_smx.testing.docker.fixtures import connect  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - the same

    daemon = connect(os.environ["DOCKER_HOST"], ours=True, images=(PYTHON, NO_PYTHON))
    before = daemon.contents()
    world = DockerHarness(tmp_path_factory.mktemp("it's $(me) & 日本 100 %s") / "smx", daemon.host, PYTHON.name)
    try:
        request = world.request(2)
        request = replace(request, hosts=tuple(replace(plan, memory=1 << 30) for plan in request.hosts))
        yield Pair(world, request, await world.acquire(request))
    finally:
        await world.close()
    assert daemon.contents().keys() <= before.keys()
    daemon.client.close()


async def test_hosts_are_found_and_not_made_again(pair: Pair) -> None:
    world, request, handle = pair
    assert await world.new_engine().find(request.cluster) == handle == await world.acquire(request)
    assert await world.engine.observe_all([handle]) == [Observation.RUNNING]
    assert world.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}


async def test_hosts_meet_by_their_names(pair: Pair) -> None:
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(AgentClient(pair.world.engine, pair.handle, host))
            for host in networking.HOSTS
        ]
        script = f"PATIENCE = {networking.PATIENCE}\n{networking.MESSAGE_FUNCTIONS}{networking.LEADER_SCRIPT}"
        ends = await asyncio.gather(*(agent.run_and_wait(script) for agent in agents))
    assert [last_json(end) for end in ends] == [["leads", "algo-2"], ["follows", "algo-1"]]


async def test_jobs_read_the_users_data_and_files_come_home_as_the_users(pair: Pair, tmp_path: Path) -> None:
    source = tmp_path / "mine.csv"
    source.write_text("1,2")
    source.chmod(0o600)
    [there] = (await pair.world.engine.provide_files(pair.handle, "algo-2", [os.fspath(source)])).values()
    for epoch in (2, 3):  # the next job can remove what a job locked, whichever user's controller runs it
        async with AgentClient(pair.world.new_engine(), pair.handle, "algo-2", epoch=epoch) as agent:
            end = await agent.run_and_wait(
                JOB, lease=epoch, channels=[{"name": "data", "source": there, "mode": "FastFile"}]
            )
            artifacts = end.record["artifacts"]
        assert last_json(end) == {"who": [0, 0], "data": "1,2", "may write": False}
        assert [one["name"] for one in artifacts] == ["model.tar.gz"]
    assert {path.lstat().st_uid for path in pair.world.folder.rglob("*")} == {os.getuid()}


async def test_what_the_daemon_cannot_limit_is_said(pair: Pair) -> None:
    facts = await pair.world.engine.doctor()
    assert "without root's rights" in str(facts["kind"])
    assert facts["user_of_jobs"] == "0:0"
    is_free = "not_limited_here" in facts
    assert is_free or facts["control_groups"] == "version 2"
    async with AgentClient(pair.world.engine, pair.handle, epoch=4) as agent:
        reason = agent.hello["limits"].get("reason", "")
    for host in pair.handle.hosts:
        assert list(host.given_up) == facts["given_up"]
        assert bool(reason) == is_free == any(f"cannot be limited: {reason}" in row for row in host.given_up)


async def test_a_stopped_job_is_dead_with_all_that_it_started(pair: Pair) -> None:
    token = secrets.token_hex(8)
    async with AgentClient(pair.world.engine, pair.handle, epoch=5) as agent:
        job = await agent.run(process_tree_source(token), lease=5)
        await agent.wait_for_log(job, b"all born")
        await agent.call("stop", job=job, lease=5, grace=1, cause="stopped")
        assert (await agent.wait_for_outcome(job)).record["cause"] == "stopped"
        await eventually(lambda: not pair.world.command_lines_with(token), "nothing of the job is alive")
    assert pair.world.live_hosts(pair.handle.cluster) == {"algo-1", "algo-2"}


async def test_an_image_without_python_is_refused(pair: Pair) -> None:
    with pytest.raises(RefusedError, match="Python") as told:
        await pair.world.engine.resolve_image(NO_PYTHON.name, lambda _words: None)
    assert told.value.field == "image"


async def test_the_daemon_is_found_where_its_set_up_leaves_it(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import daemon_address  # noqa: PLC0415 - imports Docker's library

    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path / "docker"))
    nearer = ("/var/run/docker.sock", f"{os.environ['XDG_RUNTIME_DIR']}/docker.sock")
    found = next((f"unix://{path}" for path in nearer if os.access(path, os.F_OK)), pair.world.daemon)
    assert daemon_address("", os.environ) == found
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    pair.world.run_docker("context", "create", "rootless", f"--docker=host={pair.world.daemon}")
    monkeypatch.setenv("DOCKER_CONTEXT", "rootless")
    assert daemon_address("", os.environ) == pair.world.daemon


async def test_a_release_ends_what_a_killed_agent_had_started_and_leaves_nothing(pair: Pair) -> None:
    world, request, handle = pair
    token = secrets.token_hex(8)
    async with AgentClient(world.engine, handle, epoch=6) as agent:
        job = await agent.run(process_tree_source(token, hidden=False), lease=6)
        await agent.wait_for_log(job, b"all born")
    world.kill_agent(request.cluster, "algo-1")
    assert await world.new_engine().observe_all([handle]) == [Observation.GONE]
    await world.new_engine().release(handle)
    assert world.command_lines_with(token) == []
    assert world.leftovers(request.cluster) == []
    assert await world.engine.find(request.cluster) is None
