"""What each controller puts into a new data folder, made once for all tests of a process.

To compile the agent for its archive takes as long as everything else in a controller's start. Tests have hundreds of
data folders: they begin as another controller of the same version leaves a folder in which it did nothing.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from jupyter_smx.engines.machine import agent_zipapp

_RECORDS = "smx.sqlite"


def provide_data_folder(folder: Path) -> None:
    """Make a data folder, if there is none, with both files."""
    provide_archive(folder)
    provide_records(folder)


def provide_archive(folder: Path) -> None:
    """Make a data folder, if there is none, and write the agent's archive into it, unless it has one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / agent_zipapp.file_name()
    if not path.exists():
        path.write_bytes(_archive())


def provide_records(folder: Path) -> None:
    """Make a data folder, if there is none, and write empty records into it, unless it has some."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / _RECORDS
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(_empty_records())


@cache
def _archive() -> bytes:
    return agent_zipapp.pack(agent_zipapp.add_bytecode(agent_zipapp.members()))


@cache
def _empty_records() -> bytes:
    from jupyter_smx.controller.db.store import Store  # noqa: PLC0415 - the contract does without it

    with tempfile.TemporaryDirectory(prefix="smx-records-") as folder:
        path = Path(folder, _RECORDS)
        store = Store.open(path)
        store.checkpoint()
        store.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as records:
            records.execute("UPDATE meta SET epoch = 0")  # so that the first controller of a test has epoch 1
        return path.read_bytes()
