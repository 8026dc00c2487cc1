"""The Docker engine fulfils the contract with ``--user image``, for a user and for root. Apart: it takes minutes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from jupyter_smx.testing.contract import EngineContract
from jupyter_smx.testing.docker import settings_images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness
    from jupyter_smx.testing.docker.images import TestImage

pytestmark = [
    pytest.mark.heavy("docker"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user"),
]
USERS = (settings_images.USER_1000, settings_images.ROOT)


class TestImageUser(EngineContract):
    @pytest.fixture(params=USERS, ids=[image.tag for image in USERS])
    def image(self, request: pytest.FixtureRequest, docker_daemon: Docker) -> TestImage:
        settings_images.load(docker_daemon.client, [request.param])
        return request.param

    @pytest_asyncio.fixture
    async def harness(self, tmp_path: Path, docker: Docker, image: TestImage) -> AsyncIterator[DockerHarness]:
        from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

        harness = DockerHarness(tmp_path / "smx", docker.host, image.name, image_settings=("user",))
        # As callers do before a plan: a plan sends no request.
        await harness.engine.resolve_image(harness.image, lambda _step: None, settings=("user",))
        yield harness
        await harness.close()
