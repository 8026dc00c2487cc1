"""The toy machine for the contract: what the local engine's harness sees, behind a gateway that can be closed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gateway import GatewayServer
from toy_engine import ToyEngine

from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ToyHarness(LocalHarness):
    """A toy engine with a machine and a gateway of its own."""

    def __init__(self, folder: Path, hidden: Path) -> None:
        self.gateway = GatewayServer()
        super().__init__(folder, gateway=self.gateway.path, hidden_folders=[os.fspath(hidden)], clock_offset=3600.0)

    def python(self) -> str:
        """Give the machine's own."""
        return ""

    def new_engine(self) -> ToyEngine:
        """Make another instance that shares the machine only."""
        return ToyEngine(data_dir=os.fspath(self.folder), **self.traits)

    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Read what was started; the interpreter of the machine starts another one, which alone can be seen."""
        seen: dict[str, Any] = super().actual_plan(cluster)
        for host in seen["hosts"].values():
            host["command"][0] = os.fspath(self.folder / "bin" / "python")
        return {**seen, "engine": "toy"}

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Close the gateway."""
        self.gateway.close()
        try:
            yield
        finally:
            self.gateway.open()

    async def close(self) -> None:
        """Release everything, then end the gateway."""
        try:
            await super().close()
        finally:
            self.gateway.shut_down()
