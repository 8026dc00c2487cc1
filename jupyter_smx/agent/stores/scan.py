"""Scan a folder: its files, and what distinguishes two versions of a file."""

from __future__ import annotations

import errno
import os
import stat
from typing import Dict, List, Optional, Tuple

from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.agent.system.named_tuple import NamedTuple

PART = ".smx-part-"
"""Prefix of the temporary names of files that are being written at their destination."""
_MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

Stamp = Tuple[int, int, int]
"""Identity of a file's content: size, and the times of its last change that programs can and cannot set."""


class FolderScan(NamedTuple):
    """The content of a folder: its files by name, and the paths that cannot be read."""

    files: Dict[str, Stamp]
    closed: List[str]
    is_whole: bool
    """False if the folder was missing or replaced, or an entry disappeared during the scan: it may have been renamed to
    a name that the scan did not see.
    """


def read_stamp(path: str) -> Stamp:
    """Return the stamp of a file.

    :raises OSError: it does not exist.
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
    """Return the identity of a folder, None if there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
