"""One layer of a container image: a tree of files as a tar, whose bytes depend only on its content."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import posixpath
import re
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCK = 1 << 20
_NEEDED = re.compile(r"(?:=> |^\s+)(/.+?) \(0x[0-9a-f]+\)$", re.MULTILINE)
_DLOPEN_LIBRARIES = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library opens while a program runs, so that no program names them."""


class _Entry(NamedTuple):
    """One file, folder or link: its header in the tar, and the source of its content."""

    kind: bytes
    mode: int
    source: Path | None = None
    text: str = ""
    owner: int = 0

    def identity(self) -> str:
        """Name what goes in, without reading it."""
        looked = self.source.stat() if self.source else None
        facts = (looked.st_size, looked.st_mtime_ns) if looked else ""
        return f"{self.kind!r} {self.mode:o} {self.owner} {self.text!r} {facts}"


class Layer:
    """A tree that grows by absolute paths of the image; folders above each path come by themselves."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def folder(self, path: str, mode: int = 0o755, *, owner: int = 0) -> None:
        """Add a folder of a user and a group with the number ``owner``, and those above it."""
        above = posixpath.dirname(path)
        if above not in {"/", self._name(above)} and self._name(above) not in self._entries:
            self.folder(above)
        self._entries[self._name(path)] = _Entry(tarfile.DIRTYPE, mode, owner=owner)

    def file(self, path: str, source: Path) -> None:
        """Add a copy of a file of this machine, links followed."""
        mode = 0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644
        self._add(path, _Entry(tarfile.REGTYPE, mode, source))

    def write(self, path: str, text: str, mode: int = 0o644, *, owner: int = 0) -> None:
        """Add a file with this text, of a user and a group with the number ``owner``."""
        self._add(path, _Entry(tarfile.REGTYPE, mode, None, text, owner))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, _Entry(tarfile.SYMTYPE, 0o777, None, target))

    def remove(self, path: str) -> None:
        """Remove a file of the layers below this one."""
        folder, name = posixpath.split(path)
        self.write(f"{folder}/.wh.{name}", "")

    def tree(self, folder: Path, leave_out: Sequence[str] = ()) -> None:
        """Add all files below a folder of this machine at their own paths, but what has a name that fits a pattern."""

        def wanted(name: str) -> bool:
            return not any(fnmatch.fnmatch(name, pattern) for pattern in leave_out)

        for top, folders, files in os.walk(folder):
            folders[:] = filter(wanted, folders)
            for name in filter(wanted, files):
                path = Path(top, name)
                if path.is_file():
                    self.file(os.fspath(path), path)

    def program(self, name: str) -> None:
        """Add a program of this machine below ``/usr/bin``.

        :raises FileNotFoundError: this machine has no program of that name.
        """
        found = shutil.which(name, path="/usr/bin:/bin")
        if found is None:
            raise FileNotFoundError(f"{name} is not in /usr/bin or /bin, and the image is made of this machine's own.")
        self.file(f"/usr/bin/{name}", Path(found))

    def libraries(self) -> None:
        """Add the shared libraries of the programs here, at the paths where this machine's loader finds them."""
        binaries = [entry.source for entry in self._entries.values() if entry.source and _is_program(entry.source)]
        command = [shutil.which("ldd") or "ldd", *map(os.fspath, binaries)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        needed = {Path(found) for found in _NEEDED.findall(said)}
        beside = {
            path.parent / late for path in needed if path.name.startswith("libc.so") for late in _DLOPEN_LIBRARIES
        }
        for library in sorted(needed | {path for path in beside if path.exists()}):
            self.file(os.fspath(library), library)

    def size(self) -> int:
        """Count the bytes of its files."""
        return sum(entry.source.stat().st_size for entry in self._entries.values() if entry.source)

    def key(self) -> str:
        """Hash names, sizes and times of the files, so that an unchanged layer is recognized without reading them."""
        digest = hashlib.sha256()
        for name, entry in sorted(self._entries.items()):
            digest.update(f"{name!r} {entry.identity()}\n".encode())
        return digest.hexdigest()

    def save(self, file: IO[bytes]) -> str:
        """Write the tar, and give the digest of its bytes."""
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name, entry in sorted(self._entries.items()):
                _put(tar, name, entry)
        file.seek(0)
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
        return f"sha256:{digest.hexdigest()}"

    def _add(self, path: str, entry: _Entry) -> None:
        above = posixpath.dirname(path)
        if self._name(above) not in self._entries and above != "/":
            self.folder(above)
        self._entries[self._name(path)] = entry

    @staticmethod
    def _name(path: str) -> str:
        return posixpath.normpath(path).lstrip("/")


def _is_program(path: Path) -> bool:
    """Return True if the loader has to find libraries for it: a program, a library, an extension module."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _put(tar: tarfile.TarFile, name: str, entry: _Entry) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = entry.kind, entry.mode
    info.uid = info.gid = entry.owner
    if entry.kind == tarfile.SYMTYPE:
        info.linkname = entry.text
        tar.addfile(info)
    elif entry.source is None:
        content = entry.text.encode()
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    else:
        with entry.source.open("rb") as file:
            looked = os.fstat(file.fileno())
            info.size, info.mtime = looked.st_size, int(looked.st_mtime)  # the time is what compiled modules ask
            tar.addfile(info, file)
