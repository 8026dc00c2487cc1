from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest
from records import a_job
from sqlalchemy import create_engine, inspect

from jupyter_smx.controller.db import connection, tables
from jupyter_smx.controller.db.store import Store
from jupyter_smx.data_folder import location
from jupyter_smx.model.errors import UnavailableError, ValidationError, VersionMismatchError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus, is_final, status_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.controller.errors import RecordsError

replace = msgspec.structs.replace
_EVENTS = "SELECT sql FROM sqlite_master WHERE name = 'events'"


def test_the_versions_together_make_the_tables_of_a_new_file(path: Path, tmp_path: Path) -> None:
    def shape(file: Path) -> dict[str, object]:
        engine = create_engine(f"sqlite:///{file}")
        found = inspect(engine)
        rows: dict[str, object] = {
            name: (
                [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)],
                sorted((str(index["name"]), index["column_names"]) for index in found.get_indexes(name)),
                found.get_unique_constraints(name),
            )
            for name in found.get_table_names()
        }
        with engine.connect() as reader:
            rows["rows"] = [reader.exec_driver_sql(f"SELECT * FROM {name}").fetchall() for name in sorted(rows)]  # noqa: S608 - names of tables
            rows["is counted"] = "AUTOINCREMENT" in str(reader.exec_driver_sql(_EVENTS).scalar())
        engine.dispose()
        return rows

    connection.connect(path).close()
    migrated = tmp_path / "migrated.sqlite"
    with closing(sqlite3.connect(migrated, isolation_level=None)) as raw:
        connection.migrate(raw, tables.REVISIONS[-1])
    assert shape(path) == shape(migrated)
    assert shape(path)["is counted"]


def test_the_statements_name_the_statuses_of_live_jobs_and_the_state_of_ended_clusters() -> None:
    live = sorted({status_of(step).value for step in SecondaryStatus if not is_final(step)})
    ended = ClusterState.TERMINATED.value
    statements = {name: value for name, value in vars(tables).items() if isinstance(value, tables.Statement)}
    literals = {name: re.findall(r"'(\w*)'", statement.text) for name, statement in statements.items()}
    assert {name: words for name, words in literals.items() if words} == {
        "UPSERT_JOB": live,
        "DELETE_JOB": live,
        "LIVE_JOBS": live,
        "UPSERT_CLUSTER": [ended, ended],
        "LIVE_CLUSTERS": [ended],
        "CLUSTERS_WITHOUT_USAGE": [ended],
    }


def test_records_of_a_newer_version_are_refused_untouched(store: Store, path: Path) -> None:
    store.write([a_job()])
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.commit()
    raw.close()
    with pytest.raises(VersionMismatchError, match="newer jupyter-smx"):
        Store.open(path)
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT epoch FROM meta").fetchone() == (store.epoch,)
    raw.close()


@pytest.mark.processes
def test_new_and_known_records_open_without_alembic_and_sqlalchemy(path: Path) -> None:
    code = (
        "import sys, pathlib; from jupyter_smx.controller.db.store import Store;"
        f"Store.open(pathlib.Path({str(path)!r})).close(); Store.open(pathlib.Path({str(path)!r})).close();"
        "sys.exit(len({'alembic', 'sqlalchemy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_the_user_can_read_the_records(store: Store, path: Path) -> None:
    store.write([a_job()])
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "fuse.sshfs"])
def test_a_network_folder_is_refused_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path.parent} {kind} rw 0 0\n")
    monkeypatch.setattr(location, "SYSTEM_MOUNTS", mounts)
    with pytest.raises(ValidationError, match="JUPYTER_SMX_DATA_DIR"):
        connection.connect(tmp_path / "smx.sqlite")
    assert not (tmp_path / "smx.sqlite").exists()


def test_a_file_that_is_no_database_is_refused_with_a_sentence(path: Path) -> None:
    path.write_bytes(b"nothing of ours " * 100)
    with pytest.raises(UnavailableError, match="not a database"):
        Store.open(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="cannot be written"):
        Store.open(tmp_path / "file" / "smx.sqlite")


@pytest.mark.parametrize("say", [connection.unreadable_error, connection.unwritable_error])
def test_on_a_full_disk_the_advice_is_to_free_space_and_not_to_move_the_records(
    tmp_path: Path, say: Callable[[Path, BaseException], RecordsError]
) -> None:
    error = say(tmp_path / "smx.sqlite", sqlite3.OperationalError("database or disk is full"))
    assert "ree some space" in error.cure
    assert "move" not in error.cure
    damaged = say(tmp_path / "smx.sqlite", sqlite3.DatabaseError("database disk image is malformed"))
    assert "move smx.sqlite* away" in damaged.cure


def test_upgraded_records_begin_no_transaction_by_themselves(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        connection.migrate(raw, tables.REVISIONS[0])
    with closing(connection.connect(path)) as upgraded:
        upgraded.execute("UPDATE meta SET epoch = 7")
        assert not upgraded.in_transaction
