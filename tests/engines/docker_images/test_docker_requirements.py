"""Requirements in containers: installed once for an image and a file, and kept for its other hosts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

pytestmark = pytest.mark.skipif(find_spec("pip") is None, reason="the image is made of this environment's pip")
CONFIG = "[install]\nno-index = true\nfind-links = /wheels\n"
ASK = """
import alpha, os, subprocess, sys
print(alpha.version, alpha.__file__)
ask = "import alpha; print('child', alpha.version)"
print(subprocess.run(["python", "-c", ask], capture_output=True, text=True).stdout.strip())
try:
    open(alpha.__file__, "a")
    print("wrote")
except OSError as error:
    print(type(error).__name__)
"""
KEPT = "requirements are those of an earlier job of this image"
INSTALLED = "requirements are installed into /opt/ml/requirements"


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PIP.name)
    yield harness
    await harness.close()


@pytest_asyncio.fixture
async def image(harness: DockerHarness, docker: Docker, tmp_path: Path) -> AsyncIterator[str]:
    """Build an image whose pip finds wheels in the image, without an index."""
    folder = tmp_path / "image"
    for version in ("1.0", "2.0"):
        write_wheel(folder / "wheels", "alpha", version)
    (folder / "pip.conf").write_text(CONFIG)
    lines = (f"FROM {images.PIP.name}", "COPY wheels /wheels", "COPY pip.conf /etc/pip.conf", "")
    (folder / "Dockerfile").write_text("\n".join(lines))
    found = await harness.engine.build_image(str(folder), lambda _step: None)
    yield found.id
    docker.client.images.remove(found.id, force=True)


async def run(harness: DockerHarness, image: str, *requirements: str) -> str:
    """Run a job on new hosts; return its log."""
    handle = await harness.acquire(replace(harness.request(), image=image))
    async with AgentClient(harness.engine, handle) as agent:
        said = (await agent.run_and_wait(ASK, requirements=[*requirements])).text
    await harness.engine.release(handle)
    return said


async def test_requirements_are_installed_once_for_an_image_and_its_other_hosts_only_read_them(
    harness: DockerHarness, image: str
) -> None:
    first = await run(harness, image, "alpha==1.0")
    assert INSTALLED in first
    assert "1.0 /opt/ml/requirements/lib/" in first
    second = await run(harness, image, "alpha==1.0")
    assert KEPT in second
    assert INSTALLED not in second
    assert "1.0 /run/smx-packages/" in second
    assert "child 1.0" in second
    assert "PermissionError" in second
    other = await run(harness, image, "alpha==2.0")
    assert INSTALLED in other
    assert "child 2.0" in other
    assert KEPT in await run(harness, image, "alpha==2.0")


async def test_requirements_that_cannot_be_installed_are_not_kept(harness: DockerHarness, image: str) -> None:
    for _ in range(2):
        said = await run(harness, image, "alpha==3.0")
        assert INSTALLED in said
        assert "No matching distribution found for alpha==3.0" in said
