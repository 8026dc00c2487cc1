"""Folders of this machine with files that all hosts of an image share: requirements and ``.pyc`` files.

Jobs write to them, so nothing below such a folder is opened here: a job may have put a link there.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.engines.docker.daemon.users import ContainerUser

PACKAGES, BYTECODE = "image-packages", "image-bytecode"
"""Folders of the data folder. Both have one folder for each image and user of jobs."""
_NEVER_STORED = ("opt/ml", "tmp", "dev")
"""Paths of hosts where jobs write.

Files take the places of these folders among the ``.pyc`` files. Python compiles what is imported from there without
storing it: the next job may have another file of the same name, size and second, for which a ``.pyc`` file would count.
"""
_LOCK, _UNFINISHED = re.compile(r"[0-9a-f]{32}\.lock"), re.compile(r"[0-9a-f]{32}\.part")
_DAY = 86_400
_UNUSED_SECONDS = 30 * _DAY
_one_at_a_time = threading.Lock()


def folder_name(image: str, user: str) -> str:
    """Return the name of the folders of an image's id for one user of jobs."""
    return re.sub(r"[^\w.-]", "-", f"{image.rpartition(':')[2]}-{user}")


def make(root: Path, name: str, users: ContainerUser) -> None:
    """Make both folders of an image, or record that they are used. Blocks.

    :raises OSError: they cannot be written.
    """
    with _one_at_a_time:
        _make(root / PACKAGES / name, (), users)
        _make(root / BYTECODE / name, _NEVER_STORED, users)


def _make(folder: Path, files: tuple[str, ...], users: ContainerUser) -> None:
    if not folder.is_dir():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
        for name in files:
            (part / name).parent.mkdir(exist_ok=True)
            (part / name).touch()
        users.chown(part, *((part / name).parent for name in files))
        part.rename(folder)
    os.utime(folder)


def prune(root: Path, now: float) -> None:
    """Delete what no job has used for a month, and what a kill has left unfinished. Blocks."""
    for folder in _folders(root / PACKAGES):
        _prune_packages(folder, now)
        if _is_older(folder, now, _UNUSED_SECONDS):
            with suppress(OSError):
                folder.rmdir()  # unless it has packages
    for folder in _folders(root / BYTECODE):
        if _is_older(folder, now, _UNUSED_SECONDS):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in (*(root / PACKAGES).glob(".*"), *(root / BYTECODE).glob(".*")):
        if _is_older(folder, now, _DAY):
            shutil.rmtree(folder, ignore_errors=True)


def _folders(top: Path) -> Iterator[Path]:
    return (path for path in top.glob("[!.]*") if path.is_dir())


def _prune_packages(folder: Path, now: float) -> None:
    used = folder.stat()
    for path in [*folder.iterdir()]:
        if _LOCK.fullmatch(path.name) and _is_older(path, now, _UNUSED_SECONDS):
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            with suppress(OSError):
                path.unlink()
        elif _UNFINISHED.fullmatch(path.name) and _is_older(path, now, _DAY):
            shutil.rmtree(path, ignore_errors=True)
    os.utime(folder, ns=(used.st_atime_ns, used.st_mtime_ns))  # a deletion is no use


def _is_older(path: Path, now: float, seconds: float) -> bool:
    with suppress(OSError):
        return now - path.lstat().st_mtime > seconds
    return False
