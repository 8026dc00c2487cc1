"""An engine over the layer for remote engines keeps the contract: its machines are shells with homes of their own.

It takes minutes and runs with ``--heavy remote``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from remote_harness import RemoteHarness
from shell_engine import ShellEngine

from jupyter_smx.testing.contract import EngineContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.heavy("remote")


class ShellHarness(RemoteHarness):
    """One machine with a home folder of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.home = home
        super().__init__(folder)

    def new_engine(self) -> ShellEngine:
        """Make another instance that shares only disks."""
        return ShellEngine(data_dir=os.fspath(self.folder), homes={"box": os.fspath(self.home)}, **self.traits)

    def roots(self) -> list[Path]:
        """Give the default folder of hosts in the machine's home."""
        return [self.home / ".local/share/jupyter_smx"]

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Turn the machine off for every way to it."""
        switch = self.home / "off"
        switch.touch()
        try:
            yield
        finally:
            switch.unlink()


class TestShellEngine(EngineContract):
    @pytest_asyncio.fixture
    async def harness(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ShellHarness]:
        harness = ShellHarness(tmp_path / "controller", tmp_path_factory.mktemp("home") / "it's $(a) home")
        harness.home.mkdir()
        yield harness
        await harness.close()
