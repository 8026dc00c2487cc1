"""Fixtures of the test world for SSH. The plugin is loaded in ``tests/conftest.py``, so each test can ask for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from worlds.ssh.ssh_world import SshWorld, unavailable_reason

if TYPE_CHECKING:
    from collections.abc import Iterator


def require_world(why: str) -> None:
    """Skip the test that asks for a world which this machine cannot have; fail it in CI, which installs all programs.

    ``why`` is the reason, empty where it can.
    """
    if why:
        must = os.environ.get("CI") and os.geteuid() == 0
        raise (pytest.fail if must else pytest.skip).Exception(why)


@pytest.fixture(scope="session")
def ssh_world_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshWorld]:
    """Give the three machines of this session; with xdist each worker has its own."""
    require_world(unavailable_reason())
    world = SshWorld.create(tmp_path_factory.mktemp("ssh") / "w")
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def ssh_world(ssh_world_of_session: SshWorld) -> Iterator[SshWorld]:
    """Give the three machines, each on, reachable and whole; what the test did to them is undone after it.

    Files in homes and processes of the account stay: ``Machine.wipe`` takes them away.
    """
    yield ssh_world_of_session
    ssh_world_of_session.reset()
