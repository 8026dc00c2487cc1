"""The agent's archive in the data folder of a test, compiled once for all tests of a process.

Each controller writes the archive into a new data folder, and compiles the agent for it. Tests have hundreds of such
folders. They start as if another controller of the same version had been there.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine import agent_zipapp

if TYPE_CHECKING:
    from pathlib import Path


def provide_archive(folder: Path) -> None:
    """Make a data folder, if there is none, and write the agent's archive into it, if it has none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / agent_zipapp.file_name()
    if not path.exists():
        path.write_bytes(_archive())


@cache
def _archive() -> bytes:
    return agent_zipapp.pack(agent_zipapp.add_bytecode(agent_zipapp.members()))
