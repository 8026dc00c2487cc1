"""Scan a folder: its files, and what distinguishes two versions of a file."""

from __future__ import annotations

import errno
import os
import stat
from typing import Dict, List, NamedTuple, Optional, Tuple

from jupyter_smx.agent.system.files.walk import descend

PART = ".smx-part-"
"""How the name begins under which a file is written aside in the place where it is kept."""
_MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

Stamp = Tuple[int, int, int]
"""Identity of a file's content: size, and the times of its last change that programs can and cannot set."""


class FolderScan(NamedTuple):
    """What was seen of a folder: its files by their names in it, and the paths of what cannot be looked at."""

    files: Dict[str, Stamp]
    closed: List[str]
    is_whole: bool
    """False where the folder was away or became another one, or what is in it went meanwhile: it may only have got
    another name, under which it was not seen."""


def read_stamp(path: str) -> Stamp:
    """Look at a file.

    :raises OSError: it is not there.
    """
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def scan_folder(folder: str, *, follow: bool = True) -> FolderScan:
    """Find the files in a folder.

    A link to a file counts as the file where links are followed, one to a folder is none; nor are sockets, pipes and
    the like.
    """
    found: Dict[str, Stamp] = {}
    closed: List[str] = []
    gone: List[str] = []

    def miss(error: OSError) -> None:
        if error.errno not in _MISSING_ERRNOS:
            closed.append(str(error.filename))
        elif error.errno == errno.ENOENT:
            gone.append(str(error.filename))

    before = _identity(folder)
    for level in descend(folder, on_error=miss):
        for entry in level.files:
            name = level.inner(entry)
            try:
                if entry.is_file(follow_symlinks=follow):
                    found[name] = read_stamp(entry.path)
            except OSError as error:
                miss(error)
    return FolderScan(found, closed, is_whole=not gone and before is not None and before == _identity(folder))


def _identity(folder: str) -> Optional[Tuple[int, int]]:
    """Give what tells one folder from another, None where there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
