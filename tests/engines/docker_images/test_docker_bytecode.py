"""Images without ``.pyc`` files: their modules are compiled once for all hosts, and those of jobs for each job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

DELETE = "import pathlib, sys; [path.unlink() for path in pathlib.Path(sys.base_prefix).rglob('*.pyc')]"
IMPORT = """
import importlib.util, os
path = importlib.util.find_spec("colorsys").cached
before = os.path.exists(path)
import colorsys
print(before, os.path.exists(path), path.startswith("/run/smx-bytecode/"))
"""
OWN_MODULE = """
import os, sys
for folder in ("/opt/ml/model", "/tmp"):
    path = os.path.join(folder, f"of_{os.path.basename(folder)}.py")
    with open(path, "w") as file:
        file.write("x = %d")
    os.utime(path, (1, 1))
sys.path += ["/opt/ml/model", "/tmp"]
import of_model, of_tmp
print(of_model.x, of_tmp.x)
"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


@pytest_asyncio.fixture
async def image(harness: DockerHarness, docker: Docker, tmp_path: Path) -> AsyncIterator[str]:
    folder = tmp_path / "image"
    folder.mkdir()
    lines = (f"FROM {images.PYTHON.name}", f'RUN ["python3", "-B", "-c", "{DELETE}"]', "")
    (folder / "Dockerfile").write_text("\n".join(lines))
    found = await harness.engine.build_image(str(folder), lambda _step: None)
    yield found.id
    docker.client.images.remove(found.id, force=True)


async def run(harness: DockerHarness, image: str, *codes: str) -> list[str]:
    """Run jobs one after the other on new hosts; return their logs."""
    handle = await harness.acquire(replace(harness.request(), image=image))
    async with AgentClient(harness.engine, handle) as agent:
        said = [(await agent.run_and_wait(code)).text for code in codes]
    await harness.engine.release(handle)
    return said


async def test_the_second_cold_start_does_not_compile_again(harness: DockerHarness, image: str) -> None:
    assert [await run(harness, image, IMPORT) for _ in range(2)] == [["False True True\n"], ["True True True\n"]]


async def test_modules_of_jobs_are_compiled_for_each_job(harness: DockerHarness, image: str) -> None:
    """Two modules of the same name, size and time are one for Python, if their ``.pyc`` files are kept."""
    same_hosts = await run(harness, image, OWN_MODULE % 1, OWN_MODULE % 2)
    assert [*same_hosts, *await run(harness, image, OWN_MODULE % 3)] == ["1 1\n", "2 2\n", "3 3\n"]


async def test_an_image_with_these_files_uses_its_own(harness: DockerHarness) -> None:
    assert await run(harness, images.PYTHON.name, IMPORT) == ["True True False\n"]
