"""What is compiled once for all hosts of an image, its modules and the agent's, and what is compiled for each job."""

from __future__ import annotations

import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

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


async def test_the_agent_is_compiled_for_an_image_whose_python_is_another(
    harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's Python is made another one here, because images of these tests have this machine's."""
    from jupyter_smx.engines.docker.images import agent_bytecode, image  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setattr(image.Images, "cache", {})
    for module in (agent_bytecode, agent_zipapp):
        monkeypatch.setattr(module, "MAGIC_NUMBER", bytes.fromhex("00000d0a"))
    request = harness.request()
    handle = await harness.acquire(request)
    [container] = harness.inspect(handle.cluster)
    [archive] = [one for one in container["Mounts"] if one["Destination"] == "/run/smx.pyz"]
    assert Path(archive["Source"]).parent == harness.folder / "images" / container["Image"].removeprefix("sha256:")
    assert not archive["RW"]
    assert zipfile.ZipFile(archive["Source"]).read("bytecode-index").startswith(MAGIC_NUMBER)
    assert harness.engine.plan(replace(request, cluster=handle.cluster)) == harness.actual_plan(handle.cluster)
    async with AgentClient(harness.engine, handle) as agent:
        assert (await agent.run_and_wait("print(1)")).text == "1\n"
    await harness.engine.release(handle)
