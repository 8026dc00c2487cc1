"""The harness of the SSH engine on three machines, ``harness``. All tests of a session share connections to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "remote"))

from ssh_harness import SshHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from worlds.ssh.ssh_world import SshWorld

LONGER_THAN_THE_CLASS = 3_600.0
"""Seconds for which the shared host waits for a job."""


@pytest.fixture(scope="session")
def contract_folder(ssh_world_of_session: SshWorld) -> Iterator[Path]:
    """Give the data folder of the engine, whose connections end after the last test."""
    for machine in ssh_world_of_session.machines:
        machine.wipe()
    folder = Path(tempfile.mkdtemp(prefix="smx-contract-"))
    yield folder
    SshHarness(folder, ssh_world_of_session).end_masters()
    shutil.rmtree(folder)


@pytest.fixture(scope="class")
def shared(contract_folder: Path, ssh_world_of_session: SshWorld) -> Iterator[SshHarness]:
    """Give a harness with a host for all tests of a class."""
    made = SshHarness(contract_folder, ssh_world_of_session)
    plan = replace(made.request(), idle_limit=LONGER_THAN_THE_CLASS)
    made.shared_handle = asyncio.run(made.acquire(plan))
    yield made
    made.shared_handle = None
    asyncio.run(made.close())


@pytest.fixture
async def harness(shared: SshHarness, ssh_world: SshWorld) -> AsyncIterator[SshHarness]:
    """Give the engine; after the test nothing of it runs on the machines but the shared host."""
    made = SshHarness(shared.folder, ssh_world)
    made.shared_handle = shared.shared_handle
    yield made
    if not await made.has_idle_shared_host():
        made.shared_handle = shared.shared_handle = None  # the next tests have hosts of their own
    await made.close()
