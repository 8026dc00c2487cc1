"""Disk space: which disk is full, in names that users recognize, and a reserve for the end record."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from jupyter_smx.agent import errors
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.system.files import safe_open
from jupyter_smx.agent.system.resources.memory import format_size

if TYPE_CHECKING:
    from jupyter_smx.agent.paths import HostInfo

DiskPaths = Sequence[Tuple[str, str]]
"""Paths as the user sees them, and their real places."""

_LOW_BYTES = 1 << 16
"""Bytes; less than that is no room."""
_LARGE, _MANY = 1 << 30, 100_000
"""Bytes, and files, that a job may well leave."""
_SHM = "/dev/shm"  # noqa: S108 - POSIX shared memory, which is as small as a disk can be
_RESERVE = ".reserve"
_RESERVED = 1 << 18
"""Bytes; a record with a long traceback and many names needs less."""


class DiskError(RefusalError):
    """Files cannot be written."""


def disk_paths(host_info: HostInfo, tmp: str, spool: str) -> DiskPaths:
    """List where a job writes; ``spool`` is the folder of its log and of what it brings home."""
    folders = [host_info.path(*names) for names in (("model",), ("output", "data"), ("input", "data"), ("code",))]
    return [*((folder, folder) for folder in [*folders, tmp, _SHM]), ("the job's log and results", spool)]


def _state(path: str) -> Optional[Tuple[int, str]]:
    """Return the device of a path and a description of its lack of space, '' if there is space."""
    try:
        device, room = os.stat(path).st_dev, os.statvfs(path)
    except OSError:
        return None
    free, whole = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    if free < _LOW_BYTES:
        return device, f"{format_size(free)} of {format_size(whole)} are free"
    if room.f_files and not room.f_favail:
        return device, f"it has {room.f_files} files, which is its limit"
    return device, ""


def is_scarce(path: str) -> bool:
    """Return True if space is so short that leftovers must be deleted before the next job."""
    try:
        room = os.statvfs(path)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _LARGE or (room.f_files > 0 and room.f_favail < _MANY)


def is_full(path: str) -> bool:
    """Return True if there is no space at all."""
    found = _state(path)
    return found is not None and bool(found[1])


def is_read_only(path: str) -> bool:
    """Return True if a file system is mounted for reading only."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def is_noexec(path: str) -> bool:
    """Return True if a file system starts no program; False if the system does not report it."""
    try:
        return bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))  # Python on macOS has no such flag
    except OSError:
        return False


def format_noexec(path: str) -> str:
    """Return the message that no program below a folder can be started; '' where its file system allows it."""
    if not is_noexec(path):
        return ""
    return (
        f"Programs in {path} cannot be started, because its file system is mounted with noexec. Set "
        "JUPYTER_SMX_DATA_DIR to a folder on another file system, or start the program with its interpreter."
    )


def format_full_disk(where: DiskPaths) -> str:
    """Name the places whose disk has no room, those of one disk together; '' when all have some."""
    names: Dict[int, List[str]] = {}
    states: Dict[int, str] = {}
    for name, path in where:
        found = _state(path)
        if found is not None and found[1]:
            names.setdefault(found[0], []).append(name)
            states[found[0]] = found[1]
    said = [f"The disk of {', '.join(dict.fromkeys(names[device]))} is full: {states[device]}." for device in names]
    return " ".join(said)


def format_error(error: OSError, where: DiskPaths) -> str:
    """Return a message about an error of a file: the full disk, else the file and the system's text."""
    what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror or error)
    if not errors.is_full(error):
        return f"{what}."
    return f"{what}. {format_full_disk(where) or 'The disk is unknown; there may be a quota.'}"


def format_wait(number: int, where: DiskPaths) -> str:
    """Return why files are written later, for an error number of the system."""
    if number in errors.NO_ROOM:
        return format_full_disk(where) or "There is no room for its files."
    return f"Its files cannot be written now: {os.strerror(number)}."


def with_disk_errors(work: Callable[[], Dict[str, Any]], where: DiskPaths) -> Dict[str, Any]:
    """Call ``work``, which writes files.

    :raises DiskError: a disk is full; the text names it.
    """
    try:
        return work()
    except OSError as error:
        if errors.is_full(error):
            raise DiskError(format_error(error, where)) from error
        raise


def keep_reserve(folder: str) -> None:
    """Reserve a little space for files that must be written when the disk is full, if there is any."""
    path = os.path.join(folder, _RESERVE)
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_size == _RESERVED:
            return
    with contextlib.suppress(OSError), safe_open.open_to_write(path) as file:
        file.write(b"\0" * _RESERVED)


def release_reserve(folder: str) -> bool:
    """Give up the reserve of a folder; return True if there was one."""
    try:
        os.unlink(os.path.join(folder, _RESERVE))
    except OSError:
        return False
    return True


def write_whole(path: str, text: str, reserve: str) -> None:
    """Write a file whole or not at all, if need be with the room that is reserved in the folder ``reserve``.

    :raises OSError: not even that was enough.
    """
    try:
        _write(path, text)
    except OSError as error:
        if not errors.is_full(error):
            raise
        release_reserve(reserve)
        _write(path, text)


def _write(path: str, text: str) -> None:
    with safe_open.open_to_write(path + ".part") as file:
        file.write(text.encode())
    os.replace(path + ".part", path)
