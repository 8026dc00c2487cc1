"""Fixtures of the test world for Slurm; ``tests/conftest.py`` loads this plugin, so each test can ask for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from worlds.slurm.cluster_files import SlurmSite
from worlds.slurm.slurm_world import SlurmWorld, unavailable_reason
from worlds.ssh.fixture import require_world

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def start_cluster(tmp_path_factory: pytest.TempPathFactory, site: SlurmSite) -> Iterator[SlurmWorld]:
    """Start a cluster for a fixture, and end it after the tests."""
    require_world(unavailable_reason(accounting=site.accounting))
    world = SlurmWorld.create(tmp_path_factory.mktemp("slurm") / "w", site)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture(scope="session")
def slurm_world_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give the cluster of this session, without a shared folder; with xdist each worker has its own."""
    with start_cluster(tmp_path_factory, SlurmSite()) as world:
        yield world


@pytest.fixture
def slurm_world(slurm_world_of_session: SlurmWorld) -> Iterator[SlurmWorld]:
    """Give the cluster, whole and idle; what a test did to its machines is undone after it."""
    yield slurm_world_of_session
    slurm_world_of_session.ssh.reset()
