"""A private folder with a short path for unix sockets; a file in the data folder records which one.

The name is random, because another user can take a name that follows from the user's number. The record is what lets
processes with different environments find the same folder.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"
PARENT_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - a random name, and the folder is checked
_MAX_PARENT = 40
"""Bytes of a runtime folder; ssh adds 43 to the folder of its sockets, and a socket's path has 103 on macOS."""
_MAX_RECORD = 256
_NAME = re.compile(r"smx-[0-9a-f]{8}")


def random_token() -> str:
    """Return eight random hexadecimal digits."""
    return os.urandom(4).hex()


def find_short_folder(record: Path) -> Path | None:
    """Return the folder that ``record`` names, or None unless that is a private folder of this user."""
    folder = _read_record(record)
    return folder if folder is not None and is_private(folder) else None


def make_short_folder(record: Path, runtime_folder: str, token: Callable[[], str] = random_token) -> Path:
    """Return the folder that ``record`` names; make it, or another one if its name is taken.

    A new folder is in ``runtime_folder`` if that is a private folder of this user, else in ``/tmp`` or ``/var/tmp``.

    :raises OSError: no folder can be made; its ``filename`` is the last place that was tried.
    """
    recorded = _read_record(record)
    if recorded is not None and (is_private(recorded) or _is_restored(recorded)):
        return recorded
    error = OSError(errno.EPERM, "other users can replace files in it", PARENT_FOLDERS[0])
    for place in (runtime_folder, *PARENT_FOLDERS):
        if not _is_usable(place, is_runtime=place == runtime_folder):
            continue
        try:
            folder = _make_in(Path(place), token)
        except OSError as problem:
            error = OSError(problem.errno, problem.strerror, place)
        else:
            _write_record(record, folder)
            return folder
    raise error


def is_private(folder: Path) -> bool:
    """Return True if it is a folder, no link, of this user, which no other user can read or write."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _is_usable(place: str, *, is_runtime: bool) -> bool:
    if is_runtime:
        return 0 < len(os.fsencode(place)) <= _MAX_PARENT and is_private(Path(place))
    return _is_safe(Path(place))


def _is_safe(place: Path) -> bool:
    """Return True if no other user can replace files of this user there."""
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX) or not mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_restored(folder: Path) -> bool:
    """Make a folder again that was deleted, and return True if that worked."""
    try:
        return _is_safe(folder.parent) and _try_mkdir(folder)
    except OSError:
        return False


def _make_in(place: Path, token: Callable[[], str]) -> Path:
    while True:
        folder = place / f"smx-{token()}"
        if _try_mkdir(folder):
            return folder


def _write_record(record: Path, folder: Path) -> None:
    try:
        temporary = record.with_name(f".{folder.name}")
        temporary.write_text(f"{folder}\n", encoding="utf-8")
        temporary.replace(record)
    except OSError:
        folder.rmdir()
        raise


def _try_mkdir(folder: Path) -> bool:
    """Make a folder, and return False if its name is taken."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _read_record(record: Path) -> Path | None:
    try:
        with record.open("rb") as file:
            text = os.fsdecode(file.read(_MAX_RECORD)).strip()
    except OSError:
        return None
    folder = Path(text)
    return folder if folder.is_absolute() and _NAME.fullmatch(folder.name) else None
