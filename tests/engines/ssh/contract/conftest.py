"""The harness of the SSH engine on three machines, ``harness``. All tests of a session share connections to them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "remote"))

from ssh_harness import SshHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from worlds.ssh.ssh_world import SshWorld


@pytest.fixture(scope="session")
def contract_folder(ssh_world_of_session: SshWorld) -> Iterator[Path]:
    """Give the data folder of the engine, whose connections end after the last test."""
    for machine in ssh_world_of_session.machines:
        machine.wipe()
    folder = Path(tempfile.mkdtemp(prefix="smx-contract-"))
    yield folder
    SshHarness(folder, ssh_world_of_session).end_masters()
    shutil.rmtree(folder)


@pytest.fixture
async def harness(contract_folder: Path, ssh_world: SshWorld) -> AsyncIterator[SshHarness]:
    """Give the engine; after the test nothing of it runs on the machines."""
    made = SshHarness(contract_folder, ssh_world)
    yield made
    await made.close()
