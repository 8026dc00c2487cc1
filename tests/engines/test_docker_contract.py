"""The Docker engine keeps the contract at a real daemon, in a folder whose name breaks careless code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.docker_images import PYTHON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker_fixtures import Docker
    from jupyter_smx.testing.docker_world import DockerHarness


class TestDockerEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, nasty_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
        from jupyter_smx.testing.docker_world import DockerHarness  # noqa: PLC0415 - imports Docker's library

        harness = DockerHarness(nasty_path / "line\nbreak" / "smx", docker.host, PYTHON.name)
        yield harness
        await harness.close()
