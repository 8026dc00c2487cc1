"""The files of a folder as they are now: what tells two contents of a file apart, and which files there are."""

from __future__ import annotations

import errno
import os
import stat as kinds
from typing import Dict, List, Tuple

PART = ".smx-part-"
"""How the name begins under which a file is written aside in the place where it is kept."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

Stamp = Tuple[int, int, int]
"""What tells two contents of a file apart: size, time of its last change as anybody may set it, and as nobody may."""


def stamp(path: str) -> Stamp:
    """Look at a file.

    :raises OSError: it is not there.
    """
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def look(folder: str, *, follow: bool = True) -> Tuple[Dict[str, Stamp], List[str]]:
    """Find the files in a folder, by their names in it, and the paths of what cannot be looked at.

    A link to a file counts as the file where links are followed, one to a folder is none; nor are sockets, pipes and
    the like.
    """
    found: Dict[str, Stamp] = {}
    closed: List[str] = []

    def miss(error: OSError) -> None:
        if error.errno not in _GONE:
            closed.append(str(error.filename))

    for top, _folders, names in os.walk(folder, onerror=miss):
        for name in names:
            path = os.path.join(top, name)
            try:
                if kinds.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode):
                    found[os.path.relpath(path, folder)] = stamp(path)
            except OSError as error:
                miss(error)
    return found, closed
