"""Small disks of their own, which a test can fill."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOUNT = shutil.which("mount") or "mount"
_UNMOUNT = shutil.which("umount") or "umount"


class Disk:
    """A small disk of its own that can be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, *, but: int = 0) -> None:
        """Leave no more than ``but`` bytes free."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 65_536)
            except OSError:
                pass
        if but:
            os.truncate(self._ballast, max(0, self._ballast.stat().st_size - but))

    def make_room(self) -> None:
        """Free everything again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def mounted(folder: Path, mebibytes: int, mode: str = "0700") -> Iterator[Disk]:
    """Mount one over a folder, which is made; the test is skipped where that cannot be done."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={mebibytes}m,mode={mode}"
    made = subprocess.run(
        [_MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", os.fspath(folder)], capture_output=True, check=False
    )
    if made.returncode:
        folder.rmdir()
        pytest.skip(f"this machine mounts nothing: {made.stderr.decode().strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run([_UNMOUNT, "-l", os.fspath(folder)], check=True)
        folder.rmdir()
