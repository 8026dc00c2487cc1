"""Images from a real registry: downloaded once, with progress, pinned by digest, stopped, refused with a cure."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from jupyter_smx.engines.base import PullProgress
    from jupyter_smx.engines.docker.engine import DockerEngine
    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness
    from jupyter_smx.testing.docker.registry import Registry

pytestmark = pytest.mark.heavy("docker")

SIZE = 3_000_000


@pytest.fixture(autouse=True)
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that writes what ``docker login`` would; there is no login before its call."""
    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path))

    def write(host: str, password: str) -> None:
        line = {"auth": base64.b64encode(f"ann:{password}".encode()).decode()}
        (tmp_path / "config.json").write_text(json.dumps({"auths": {host: line}}))

    return write


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


def with_pull(harness: DockerHarness, when: str) -> DockerEngine:
    harness.traits["pull"] = when
    return harness.new_engine()


def deaf(_step: PullProgress) -> None:
    return


async def test_an_image_that_is_not_here_is_downloaded_pinned_by_its_digest_and_makes_hosts(
    harness: DockerHarness, registry: Registry
) -> None:
    there = registry.publish("team/train:1", SIZE)
    name = f"{registry.host}/team/train:1"
    assert await harness.engine.peek_image(name) is None
    heard: list[PullProgress] = []
    found = await harness.engine.resolve_image(name, heard.append)
    assert (found.name, found.id) == (name, there)
    digests = json.loads(harness.run_docker("image", "inspect", "--format", "{{json .RepoDigests}}", name))
    assert found.digest in digests
    assert found.digest.startswith(f"{registry.host}/team/train@sha256:")
    assert [step.text for step in heard if step.downloads]
    assert not heard[0].downloads, "its registry was not asked yet"
    assert "3 of 3 layers (2 were here)" in {step.text for step in heard}
    assert [step.downloads for step in heard if "Python" in step.text] == [False]

    passed = registry.proxy.byte_count
    again = await harness.engine.resolve_image(name, heard.append)
    assert (again.id, again.digest, registry.proxy.byte_count) == (there, found.digest, passed)
    assert await harness.engine.peek_image(name) == found

    handle = await harness.acquire(replace(harness.request(), image=found.id))
    async with AgentClient(harness.engine, handle) as agent:
        said = await agent.run_and_wait("import os; print(os.path.getsize('/own.bin'))")
    assert said.text == f"{SIZE}\n"


async def test_a_digest_names_an_image_and_is_asked_for_once_whatever_is_configured(
    harness: DockerHarness, registry: Registry
) -> None:
    there = registry.publish("team/fixed:1", 1_000)
    digest = (await harness.engine.resolve_image(f"{registry.host}/team/fixed:1", deaf)).digest
    registry.remove_images(f"{registry.host}/team/fixed:1", digest)
    engine = with_pull(harness, "always")
    assert await engine.peek_image(digest) is None
    found = await engine.resolve_image(digest, deaf)
    assert (found.id, found.digest, found.name) == (there, digest, digest)
    heard: list[PullProgress] = []
    name = f"{registry.host}/team/fixed:1"
    assert (await engine.resolve_image(name, heard.append)).id == there
    assert heard
    assert [step for step in heard if step.downloads] == [], "it is up to date"
    registry.proxy.close()
    with pytest.raises(RefusedError, match=r"is an image of Docker at .* but cannot be downloaded again"):
        await engine.resolve_image(name, deaf)
    assert (await engine.resolve_image(digest, deaf)).id == there
    assert (await engine.resolve_image(there, deaf)).id == there


async def test_how_far_it_is_is_said_while_it_stands_still_and_nobody_else_waits(
    harness: DockerHarness, registry: Registry
) -> None:
    there = registry.publish("team/slow:1", SIZE)
    name = f"{registry.host}/team/slow:1"
    heard: list[PullProgress] = []
    with registry.proxy.stall_after(SIZE // 6):
        waits = [asyncio.create_task(harness.engine.resolve_image(name, heard.append)) for _ in range(3)]
        await eventually(registry.proxy.stall_event.is_set, within=30)
        told = re.compile(r"2 of 3 layers \(2 were here\), (0\.[1-9]|[12]\.\d) of 2\.9 MiB")

        def is_told() -> bool:
            registry.proxy.allow_more(20_000)  # the daemon reports bytes when some arrive, at most ten times a second
            return any(told.fullmatch(step.text) for step in heard)

        await eventually(is_told, "bytes are told", within=30)
        assert (await harness.engine.resolve_image(harness.image, deaf)).id == harness.image
    found = {(await wait).id for wait in waits}
    assert found == {there}


async def test_a_download_that_is_given_up_ends_at_the_daemon_and_may_be_begun_again(
    harness: DockerHarness, registry: Registry
) -> None:
    there = registry.publish("team/stopped:1", SIZE)
    name = f"{registry.host}/team/stopped:1"
    with registry.proxy.stall_after(SIZE // 2):
        waits = asyncio.create_task(harness.engine.resolve_image(name, deaf))
        await eventually(registry.proxy.stall_event.is_set, within=30)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
    await eventually(lambda: registry.proxy.connection_count == 0, "the daemon let go", within=30)
    assert name not in harness.run_docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
    assert (await harness.engine.resolve_image(name, deaf)).id == there


@pytest.mark.parametrize("pull", ["never", "missing", "always"])
async def test_a_name_that_is_nearly_one_of_an_image_that_is_there_is_told_with_that(
    harness: DockerHarness, pull: str
) -> None:
    engine, there = with_pull(harness, pull), images.PYTHON.name.partition(":")[0]
    for wrong in (f"{there[:-2]}{there[:-3:-1]}", f"{there}:lates"):
        with pytest.raises(RefusedError, match=f"image: '{wrong}' is not an image of Docker at") as told:
            await engine.resolve_image(wrong, deaf)
        assert told.value.cure.startswith(f"Did you mean {there}:latest")
        assert "docker" in told.value.cure, "nor does it take the place of what else helps"
    with pytest.raises(RefusedError) as told:
        await engine.resolve_image("of-somebody/else:1", deaf)
    assert "Did you mean" not in told.value.cure


async def test_always_asks_what_a_name_means_now_missing_does_not_and_never_downloads_nothing(
    harness: DockerHarness, registry: Registry
) -> None:
    name = f"{registry.host}/team/moves:1"
    first = registry.publish("team/moves:1", 1_000)
    with pytest.raises(RefusedError, match="is not an image of Docker at") as refused:
        await with_pull(harness, "never").resolve_image(name, deaf)
    assert "docker pull" in refused.value.cure
    assert not refused.value.transient
    assert (await with_pull(harness, "missing").resolve_image(name, deaf)).id == first
    second = registry.publish("team/moves:1", 1_000)
    assert second != first
    assert (await with_pull(harness, "missing").resolve_image(name, deaf)).id == first
    asks = with_pull(harness, "always")
    assert (await asks.resolve_image(name, deaf)).id == second
    assert await asks.cached_image(name) is None
    registry.proxy.close()
    with pytest.raises(RefusedError, match="connection refused") as away:
        await with_pull(harness, "always").resolve_image(name, deaf)
    assert away.value.transient


async def test_a_registry_that_is_away_is_transient_and_what_it_lacks_is_not(
    harness: DockerHarness, registry: Registry
) -> None:
    there = registry.publish("team/back:1", 1_000)
    name = f"{registry.host}/team/back:1"
    registry.proxy.close()
    with pytest.raises(RefusedError, match="connection refused") as away:
        await harness.engine.resolve_image(name, deaf)
    assert (away.value.field, away.value.value, away.value.transient) == ("image", name, True)
    registry.proxy.open()
    assert (await harness.engine.resolve_image(name, deaf)).id == there
    for wrong in (f"{registry.host}/team/back:none", f"{registry.host}/nobody/nothing:1"):
        with pytest.raises(RefusedError, match=r"manifest unknown|not found") as gone:
            await harness.engine.resolve_image(wrong, deaf)
        assert (gone.value.value, gone.value.transient) == (wrong, False)
        assert f"Registry {registry.host} has no such image" in gone.value.rule


async def test_a_private_image_is_given_to_who_logged_in_and_the_others_are_told_how(
    harness: DockerHarness, registry: Registry, login: Callable[[str, str], None]
) -> None:
    there = registry.publish("team/private:1", 1_000)
    name = f"{registry.private}/team/private:1"
    with pytest.raises(RefusedError, match="no basic auth credentials") as refused:
        await harness.engine.resolve_image(name, deaf)
    assert f"docker login {registry.private}" in refused.value.cure
    assert not refused.value.transient
    for password, is_right in (("wrong", False), ("swordfish", True)):
        login(registry.private, password)
        if is_right:
            assert (await harness.engine.resolve_image(name, deaf)).id == there
        else:
            with pytest.raises(RefusedError, match="unauthorized") as wrong:
                await harness.engine.resolve_image(name, deaf)
            assert password not in str(wrong.value)


async def test_an_image_for_another_machine_is_downloaded_and_refused(
    harness: DockerHarness, registry: Registry
) -> None:
    registry.push(images.FOREIGN.name, "team/foreign:1")
    with pytest.raises(RefusedError, match="is for linux/s390x"):
        await harness.engine.resolve_image(f"{registry.host}/team/foreign:1", deaf)


async def test_an_image_that_is_not_for_linux_is_refused_at_once_with_the_cure(
    harness: DockerHarness, registry: Registry
) -> None:
    registry.publish("team/system:1", 1_000)
    for system in ("windows", "freebsd"):
        registry.publish_copy("team/system:1", system, os=system)
        with pytest.raises(RefusedError, match="operating system") as refused:
            await harness.engine.resolve_image(f"{registry.host}/team/system:{system}", deaf)
        assert refused.value.rule == "Hosts need images for Linux."
        assert "Use an image for Linux" in refused.value.cure
        assert not refused.value.transient
