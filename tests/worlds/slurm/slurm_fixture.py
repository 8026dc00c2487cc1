"""Fixtures of the test world for Slurm; ``tests/conftest.py`` loads this plugin, so each test can ask for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from worlds.slurm.slurm_world import SlurmWorld, unavailable_reason

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def slurm_world_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give the cluster of this session, without a shared folder; with xdist each worker has its own."""
    why = unavailable_reason(accounting=False)
    if why:
        must = os.environ.get("CI") and os.geteuid() == 0
        raise (pytest.fail if must else pytest.skip).Exception(why)
    world = SlurmWorld.create(tmp_path_factory.mktemp("slurm") / "w")
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def slurm_world(slurm_world_of_session: SlurmWorld) -> Iterator[SlurmWorld]:
    """Give the cluster, whole and idle; what a test did to its machines is undone after it."""
    yield slurm_world_of_session
    slurm_world_of_session.ssh.reset()
