"""Open the file of the records: permissions, pragmas, version, and reasons to refuse it."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from jupyter_smx.controller.db.tables import REVISIONS, SCHEMA, WRITE_VERSION
from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.data_folder import location
from jupyter_smx.model.errors import ValidationError, VersionMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_Record = TypeVar("_Record")
_log = logging.getLogger(__name__)

CURE = "Set JUPYTER_SMX_DATA_DIR to a folder on a disk of this machine."
NEW_FILE_ONLY_OWNER = 0o600
BUSY_SECONDS = 5.0
_WAL_SIZE_LIMIT = 1 << 20
"""Bytes of the write-ahead log that stay allocated on the disk when it restarts."""
_CORRUPT, _FULL, _NO_DATABASE = 11, 13, 26
"""SQLite's error codes; Python's exceptions have them from 3.11 on."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the records at ``path``, made or brought to this version first.

    :raises ValidationError: a network file system, where SQLite's write-ahead log loses records.
    :raises VersionMismatchError: a newer version of this package wrote them.
    :raises RecordsError: the folder cannot be written, the disk is full, or the file is no database.
    """
    _check_not_network(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, NEW_FILE_ONLY_OWNER))
        path.chmod(NEW_FILE_ONLY_OWNER)
        raw = _open(path)
    except (OSError, sqlite3.Error) as error:
        raise unwritable_error(path, error) from error
    try:
        _prepare(path, raw)
    except sqlite3.Error as error:
        raw.close()
        raise unwritable_error(path, error) from error
    except BaseException:
        raw.close()
        raise
    return raw


def connect_for_checkpoint(path: Path) -> sqlite3.Connection:
    """Open existing records once more, for a thread that moves their write-ahead log.

    :raises sqlite3.Error: the file is unavailable.
    """
    raw = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    return _set(raw, f"journal_size_limit={_WAL_SIZE_LIMIT}")


def unwritable_error(path: Path, error: BaseException) -> RecordsError:
    """Return the error for records at ``path`` that cannot be written, with the reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _is_damaged(error):
        return unreadable_error(path, error)
    return RecordsError(
        f"The records at {path} cannot be written: {reason}.",
        field="data_dir",
        value=path.parent,
        rule="The controller records every step before it acts.",
        cure=f"Make the folder writable and free some space, or: {CURE[0].lower()}{CURE[1:]}",
    )


def unreadable_error(path: Path, error: BaseException) -> RecordsError:
    """Return the error for records at ``path`` that exist but cannot be read, with the reason."""
    if _is_disk_full(error):
        return RecordsError(
            f"The records at {path} cannot be read: {error}.",
            field="data_dir",
            value=path.parent,
            rule="SQLite needs some space to read them. Nothing in them was changed or deleted.",
            cure=f"Free some space on the disk that has {path.parent}.",
        )
    return RecordsError(
        f"The records at {path} cannot be read: {error}.",
        field="data_dir",
        value=path.parent,
        rule="Nothing in them was changed or deleted.",
        cure=f"Restore a backup, or move {path.name}* away. The next controller then starts with empty records, and "
        "running hosts end at their deadlines.",
    )


def decode_readable(decode: Callable[[bytes], _Record], rows: Iterable[Sequence[Any]]) -> list[_Record]:
    """Return the records in the first column of ``rows``; log an invalid one, and return the others."""
    return [record for row in rows for record in _decode_or_skip(decode, row[0])]


def _decode_or_skip(decode: Callable[[bytes], _Record], record: bytes) -> tuple[_Record, ...]:
    try:
        return (decode(record),)
    except msgspec.DecodeError as error:
        _log.error("unreadable record skipped (%s): %.200r", error, record)
        return ()


def _is_damaged(error: BaseException) -> bool:
    said = str(error)
    return _sqlite_code(error) in (_CORRUPT, _NO_DATABASE) or "malformed" in said or "not a database" in said


def _is_disk_full(error: BaseException) -> bool:
    return _sqlite_code(error) == _FULL or "disk is full" in str(error)


def _sqlite_code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _check_not_network(path: Path) -> None:
    kind = location.mounted_network_type(path.parent)
    if kind:
        parents = " or ".join(map(str, location.PARENT_FOLDERS))
        raise ValidationError(
            f"The records cannot be stored in {path.parent}, because it is a network folder ({kind}), and no private "
            f"folder can be made in {parents}.",
            field="data_dir",
            value=path.parent,
            rule="SQLite's write-ahead log needs shared memory, which network folders do not provide.",
            cure=CURE,
        )


def _open(path: Path) -> sqlite3.Connection:
    raw = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS, cached_statements=256)
    return _set(raw, "journal_mode=WAL")


def _set(raw: sqlite3.Connection, own: str) -> sqlite3.Connection:
    """Set the pragma ``own`` and those of all connections; close the connection if one fails."""
    # A checkpoint waits for the disk, which writers must not (Store.checkpoint). SQLite would sort many live jobs in a
    # file of /var/tmp, so that a controller could not start if that disk is full.
    try:
        for each in (own, "synchronous=NORMAL", "wal_autocheckpoint=0", "temp_store=MEMORY"):
            raw.execute(f"PRAGMA {each}")
    except BaseException:
        raw.close()
        raise
    return raw


def _prepare(path: Path, raw: sqlite3.Connection) -> None:
    """Make the tables in an empty file, or bring those of an earlier version to this one."""
    if not _version(raw):
        _create(raw)
    version = _version(raw)
    if version not in REVISIONS:
        raise VersionMismatchError(
            f"The records at {path} were written by a newer jupyter-smx (version {version}, this version "
            f"supports up to {REVISIONS[-1]}).",
            field="version",
            value=version,
            cure="Update jupyter-smx, or set JUPYTER_SMX_DATA_DIR to another folder.",
        )
    if version != REVISIONS[-1]:
        migrate(raw, REVISIONS[-1])


def _version(raw: sqlite3.Connection) -> str:
    known = raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = raw.execute("SELECT version_num FROM alembic_version").fetchone() if known else None
    return str(row[0]) if row else ""


def _create(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN EXCLUSIVE")
    # Another controller may have done it while this one waited for the file.
    if not _version(raw):
        for statement in SCHEMA.split(";"):
            raw.execute(statement)
        WRITE_VERSION.run(raw, version=REVISIONS[-1])
    raw.execute("COMMIT")


def migrate(raw: sqlite3.Connection, revision: str) -> None:
    """Bring the tables from an earlier revision, or from none, to ``revision`` in one transaction.

    :raises sqlite3.Error: the file is unavailable.
    """
    # Both take longer to import than everything else here together, and are needed once per version.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415
    from sqlalchemy.pool import StaticPool  # noqa: PLC0415

    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)  # which does not close it
    config = Config(stdout=sys.stderr)
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            config.attributes["connection"] = connection
            # Leaving the block commits; inside it Alembic sees that the transaction is not its own.
            with connection.begin():
                raw.execute("BEGIN EXCLUSIVE")
                # Another controller may have done it while this one waited for the file.
                if _version(raw) != revision:
                    command.upgrade(config, revision)
    except DBAPIError as error:
        raise (error.orig or error) from error
    finally:
        raw.isolation_level = None  # SQLAlchemy sets it back to the driver's own
