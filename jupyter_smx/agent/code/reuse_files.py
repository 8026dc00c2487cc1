"""Reuse the files that a job did not change, so that the next copy of its code needs not copy them.

An index has the state of each file of a copy: inode, size, and times. The change time of a file cannot be set, so a
file with the same state has the same content. A job that takes the copy renames the index, which records the time at
which the job began, on the clock of the same disk.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Dict, Iterator, List, Tuple

_MAX_ENTRIES = 200_000
"""Entries of the trash that are looked at; a job may have left any number."""
_TICK = 100_000_000
"""Nanoseconds in which two changes of a file may have the same time on disks that count them in nanoseconds."""
_COARSE_TICK = 2_000_000_000
"""The same on other disks."""
_FINE = 1_000_000
"""Times on disks with coarse clocks are multiples of this, or of more; in nanoseconds."""

FileRow = List[int]
"""Inode, size, and the times of the last writing and of the last change, in nanoseconds."""


def file_row(found: os.stat_result) -> FileRow:
    """Describe the state of a file."""
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def write_index(folder: str, path: str) -> None:
    """Write the states of all files of a folder.

    :raises OSError: disk full.
    """
    rows = {os.path.relpath(file.path, folder): file_row(file.stat(follow_symlinks=False)) for file in _files(folder)}
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    os.rename(path + ".part", path)


def unchanged_names(rows: Dict[str, FileRow], taken: int) -> Dict[int, Tuple[str, FileRow]]:
    """Return names and states by inode of the files whose later changes are seen.

    ``taken`` is when the job began. A file that was made just before could be written again within the same tick.
    """
    is_fine = any(row[3] % _FINE for row in rows.values())
    limit = taken - (_TICK if is_fine else _COARSE_TICK)
    return {row[0]: (name, row) for name, row in rows.items() if row[3] < limit}


def move_unchanged(index: str, trash: str, target: str) -> None:
    """Move files that a job left unchanged from the ``trash`` to the folder ``target``, under their names in it.

    A second name of a file changes its state, too, so that no job writes to it by that name later.

    :raises OSError: disk full.
    """
    try:
        with open(index, encoding="utf-8") as file:
            names = unchanged_names(json.load(file), os.stat(index).st_ctime_ns)
    except (OSError, ValueError):  # no job has taken a copy yet
        return
    for entry in _files(trash):
        name, row = names.get(entry.inode(), ("", []))
        if not name:
            continue
        if file_row(entry.stat(follow_symlinks=False)) == row:
            path = os.path.join(target, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.rename(entry.path, path)


def _files(folder: str) -> Iterator["os.DirEntry[str]"]:
    """Yield the files below a folder; without recursion, because a job may have made very deep folders."""
    waiting, left = [folder], _MAX_ENTRIES
    while waiting and left > 0:
        entries: List["os.DirEntry[str]"] = []
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as found:
            entries += found
        left -= len(entries)
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from [entry for entry in entries if entry.is_file(follow_symlinks=False)]
