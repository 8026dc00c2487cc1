"""A short path for a host's folder, because paths of unix sockets are limited and jobs use ``TMPDIR``."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import TYPE_CHECKING

from jupyter_smx.agent.system.files import host_layout, rmtree

if TYPE_CHECKING:
    from jupyter_smx.agent.system.files.host_folder import HostFolder

MAX_LENGTH = 36
"""Bytes of a folder for temporary files: a socket's path has 107 (103 on macOS), and Ray adds 71 to the folder."""
PARENT_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - a link under a name of chance, in a folder that protects what one made
_LONGEST = 256
_NAME = re.compile(r"smx-[0-9a-f]{8}")


def make_short_path(folder: HostFolder) -> str:
    """Return a path of the host's folder that is short enough for sockets in it: its own, or a link to it.

    The link leads to the folder above the one for temporary files, which stays a real folder on the host's disk. If no
    link can be created, the folder's own path is returned.
    """
    if len(os.fsencode(folder.tmp)) > MAX_LENGTH:
        for place in filter(_protects, PARENT_FOLDERS):
            with contextlib.suppress(OSError):
                return _link(folder, place)
    return folder.root


def _protects(place: str) -> bool:
    """Return True if no other user can replace files of this user there."""
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX) or not mode & (stat.S_IWGRP | stat.S_IWOTH)


def _link(folder: HostFolder, place: str) -> str:
    while True:
        name = os.path.join(place, f"smx-{os.urandom(4).hex()}")
        # Written first: if this process is killed after the symlink is made, its name is on record for removal.
        with open(folder.path(host_layout.SHORTCUT), "w", encoding="utf-8") as file:
            file.write(name)
        with contextlib.suppress(FileExistsError):
            os.symlink(folder.root, name)
            return name


def restore_link(folder: HostFolder, name: str) -> None:
    """Restore the link after a job removed or replaced it.

    :raises OSError: it cannot be restored, so jobs have no folder for temporary files.
    """
    if name == folder.root or (os.path.islink(name) and os.readlink(name) == folder.root):
        return
    if os.path.lexists(name):
        rmtree.remove(name)
    os.symlink(folder.root, name)


def read_link(root: str) -> str:
    """Return the link to a host's folder, "" if it has none, or something else has the link's name.

    :raises OSError: the record of the link cannot be read.
    """
    try:
        name = _read_text(os.path.join(root, host_layout.SHORTCUT))
    except FileNotFoundError:
        return ""
    place, _, last = name.rpartition(os.sep)
    return name if place in PARENT_FOLDERS and _NAME.fullmatch(last) and _is_own_link(name, root) else ""


def remove_link(root: str, name: str = "") -> None:
    """Remove the link to a host's folder, by its name or by the recorded one; anything else of that name stays.

    :raises OSError: it exists and cannot be removed.
    """
    record = os.path.join(root, host_layout.SHORTCUT)
    with contextlib.suppress(FileNotFoundError):
        if not name:
            name = _read_text(record)
        place, _, last = name.rpartition(os.sep)
        if place in PARENT_FOLDERS and _NAME.fullmatch(last) and _is_own_link(name, root):
            os.unlink(name)
        os.unlink(record)


def _read_text(record: str) -> str:
    """Read a file that a job may have replaced by a link, or by a pipe without a writer."""
    if os.path.islink(record):
        return ""
    descriptor = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _LONGEST).decode("utf-8", "replace") if is_file else ""
    finally:
        os.close(descriptor)


def _is_own_link(name: str, root: str) -> bool:
    return os.path.islink(name) and (not os.path.exists(name) or os.path.samefile(name, root))
