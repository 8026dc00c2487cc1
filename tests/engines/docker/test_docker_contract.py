"""The Docker engine fulfils the contract, in a folder whose name breaks careless code. Apart: it takes minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.docker.images import PYTHON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

pytestmark = pytest.mark.heavy("docker")


class TestDockerEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, tmp_path: Path, nasty_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
        from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

        # Podman accepts no path with a double quote or a line break, and says so.
        is_podman = "BuildahVersion" in docker.client.info()
        folder = tmp_path / "it's $(me) & 日本 100 %s" if is_podman else nasty_path / "line\nbreak"
        harness = DockerHarness(folder / "smx", docker.host, PYTHON.name)
        # As callers do before a plan: a plan sends no request, and some daemons lack features of Docker.
        await harness.engine.resolve_image(harness.image, lambda _words: None)
        yield harness
        await harness.close()
