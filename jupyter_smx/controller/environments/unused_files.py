"""Keep environments whole in a folder whose unused files a cleaner deletes one by one, as ``systemd-tmpfiles`` does.

All files of an environment are marked as used together, each day that it is used. The oldest one is a marker. A cleaner
deletes by age, so the marker is the first file to go, and an environment without it is built again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from jupyter_smx.agent.code.environment_build import READY

MARKER = "oldest"
_INTERVAL = 86_400.0
"""Seconds after which the files of an environment that is used are marked once more."""


def create_marker(folder: Path) -> None:
    """Make the marker before any other file of an environment; a build then finds out what the disk refuses.

    Delete the file of a complete build first: with a new marker, an environment that lacks files would be whole until
    its build begins, and for good if the job is stopped before.
    """
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / READY).unlink(missing_ok=True)
        (folder / MARKER).touch()


def is_whole(folder: Path) -> bool:
    """Return True if no cleaner has deleted files of an environment."""
    return (folder / MARKER).exists()


def is_mark_due(folder: Path, now: float) -> bool:
    """Return True if the files of an environment were not marked as used for a day before ``now``."""
    try:
        return now - (folder / MARKER).stat().st_mtime >= _INTERVAL
    except OSError:
        return False


def mark_all_used(folder: Path, now: float) -> None:
    """Set the time of the last access of all files to ``now``, the marker first. Blocks: there may be ten thousands.

    The times of their contents stay, since Python compares those of modules with its compiled files.
    """
    with suppress(OSError):
        os.utime(folder / MARKER, (now, now))
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if name != MARKER:
                _mark_used(Path(place, name), now)


def _mark_used(path: Path, now: float) -> None:
    with suppress(OSError):
        status = path.lstat()
        times = (int(now * 1e9), status.st_mtime_ns)
        os.utime(path, ns=times, follow_symlinks=False)
