"""SFTP and FTP servers for the fsspec worker: connections, folders, and files that appear complete.

A file is written under a temporary name, and then replaces the previous one by a rename.
"""

from __future__ import annotations

import contextlib
import errno
import ftplib
import hashlib
import os
import queue
import re
import shutil
import threading
from typing import Any, Callable, Dict, Iterator, Sequence, Set, Tuple

from jupyter_smx.agent.stores import filesystems, retry, scan, url_schemes

_LARGE = 1 << 24
"""Bytes of a file of an FTP server that go through one connection."""
_ANSWERS = 120.0
"""Seconds in which S3 takes a part and answers."""
_BEFORE = "-before-"
"""Separates the temporary name from the file's own in the name of a replaced file, if that takes two renames."""
_TEMPORARY_NAME = re.compile(rf"{re.escape(scan.PART)}(.+?)-[0-9a-f]{{16}}(?:{_BEFORE}(.+))?", re.DOTALL)
"""Such a name: its writer, whose own name may have anything in it, and the file that is replaced, if it is that."""


def filesystem_protocols(system: Any) -> Sequence[str]:
    """Return the protocols of a file system."""
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)


def is_server(system: Any) -> bool:
    """Return True if a file system belongs to a server with folders."""
    return bool(set(filesystem_protocols(system)) & set(url_schemes.SERVERS))


def is_renaming(system: Any) -> bool:
    """Return True if files are written there under temporary names."""
    return bool(set(filesystem_protocols(system)) & set(url_schemes.RENAMING))


def find_filesystem(url: str, **words: bool) -> Tuple[Any, str]:
    """Find the file system of a URL, and what the URL is called there."""
    system, path = filesystems.find_filesystem(url, **words)
    if "s3" in filesystem_protocols(system):
        # It counts while a part is on its way there, for which s3fs' own 15 seconds are short.
        system.read_timeout = _ANSWERS
    return system, path


class RemoteFolders:
    """The existing folders of a server, each looked up only once: with FTP that lists its parent folder."""

    def __init__(self) -> None:
        self._existing: Set[str] = set()
        self._making = threading.Lock()
        """Held while a folder is created: of two threads that find it missing, one would fail."""

    def make(self, system: Any, folder: str) -> None:
        """Make a folder unless it is there."""
        if not folder or folder in self._existing:
            return
        with self._making:
            if folder not in self._existing:
                _make(system, folder)
                self._existing.add(folder)

    def invalidate(self, folder: str) -> None:
        """Mark a folder as possibly removed: writers remove a folder that they leave empty."""
        with self._making:
            self._existing.discard(folder)


def _make(system: Any, folder: str) -> None:
    try:
        system.makedirs(folder, exist_ok=True)
    except Exception:
        if not system.isdir(folder):  # another host made it at the same time
            raise


class ConnectionPool:
    """Connections to a server, of which each serves one at a time; a store that serves many at once is one of them."""

    def __init__(self, top: str) -> None:
        self._top = top
        first, path = find_filesystem(top, fresh=True)
        self.path = path.rstrip("/")
        self._all = first if first.async_impl else None
        self._free: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._free.put(first)
        self._has_more = True

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Any]:
        """Lend a connection; if the server accepts no more of them, wait until one is returned."""
        if self._all is not None:
            yield self._all
            return
        system, after = self._borrow_free(), None
        try:
            yield system
            after = system
        except Exception as error:
            after = None if retry.is_transient(error) else system
            raise
        finally:
            self._free.put(after)

    def _borrow_free(self) -> Any:
        try:
            system = self._free.get_nowait()
        except queue.Empty:
            system = self._connect() or self._free.get()
        return self._reconnect() if system is None else system

    def _connect(self) -> Any:
        if self._has_more:
            try:
                return find_filesystem(self._top, fresh=True)[0]
            except Exception:  # noqa: BLE001 - border: as any other try, and there is one already
                self._has_more = False
        return None

    def _reconnect(self) -> Any:
        """Replace a lost connection, which is None in the pool."""
        try:
            return find_filesystem(self._top, fresh=True)[0]
        except BaseException as error:
            self._free.put(None)
            if isinstance(error, FileNotFoundError):  # this is about no file that is kept
                raise ConnectionError(str(error)) from error
            raise


def temporary_name(name: str, writer: str) -> str:
    """Return the temporary name of a file for a writer, in the file's own folder."""
    mark = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"{scan.PART}{writer}-{mark}"


def filter_temporary(system: Any, top: str, found: Dict[str, Any], writer: str) -> Dict[str, Any]:
    """Leave out temporary files of writers in a listing, after a writer's own ones were deleted.

    A file that was about to be replaced when its writer was killed is restored.
    """
    aside = {name: info for name, info in found.items() if name.rpartition("/")[2].startswith(scan.PART)}
    whole = {name: info for name, info in found.items() if name not in aside}
    for name, info in aside.items():
        folder, slash, last = name.rpartition("/")
        parts = _TEMPORARY_NAME.fullmatch(last)
        if parts is None:
            continue
        theirs, replaced = parts.groups()
        before = f"{folder}{slash}{replaced}"
        with contextlib.suppress(Exception):  # the rest only takes room
            if replaced and before not in whole:
                system.ftp.rename(f"{top}/{name}", f"{top}/{before}")
                whole[before] = info
            elif theirs == writer:
                system.rm_file(f"{top}/{name}")
    return whole


def block_options(system: Any) -> Dict[str, int]:
    """Return the options to write files in large blocks, if each block takes a connection of its own."""
    return {"block_size": _LARGE} if "ftp" in filesystem_protocols(system) else {}


def write_atomically(system: Any, path: str, target: str, writer: str, *, is_same: Callable[[], None]) -> None:
    """Write a file into an existing folder, under a temporary name until it is complete.

    ``is_same`` raises if the file changed meanwhile.
    """
    folder, _, last = target.rpartition("/")
    aside = f"{folder}/{temporary_name(last, writer)}"
    try:
        with open(path, "rb") as file, system.open(aside, "wb", **block_options(system)) as there:
            shutil.copyfileobj(file, there, _LARGE)
            size = file.tell()
        if "sftp" in filesystem_protocols(system):
            _check_complete(system, aside, size)
        is_same()
        _replace(system, aside, target)
    except BaseException:
        with contextlib.suppress(Exception):  # what went wrong before is what matters
            system.rm_file(aside)
        raise


def _check_complete(system: Any, path: str, size: int) -> None:
    """Check the size of a file on the server, because the library ignores an error when it closes the file."""
    there = system.info(path)["size"]
    if there != size:
        raise ConnectionError(f"the server has {there} of {size} bytes")


def _is_folder(system: Any, path: str) -> bool:
    """Return True if a name is a folder's; an FTP listing may be wrong about it while other names in it change."""
    if "ftp" not in filesystem_protocols(system):
        return bool(system.isdir(path))
    before = system.ftp.pwd()
    try:
        system.ftp.cwd(path)
    except ftplib.error_perm:
        return False
    system.ftp.cwd(before)
    return True


def _replace(system: Any, aside: str, target: str) -> None:
    """Rename a file over another one, by two renames where the server has none that replaces a file."""
    try:
        system.mv(aside, target)
    except Exception as error:
        if _is_folder(system, target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target) from error
        if not system.exists(target):  # nothing is in its way: the server has no rename that would replace it
            system.ftp.rename(aside, target)
            return
        before = f"{aside}{_BEFORE}{target.rpartition('/')[2]}"
        with contextlib.suppress(Exception):  # of an attempt that ended here
            system.rm_file(before)
        system.ftp.rename(target, before)
        try:
            system.ftp.rename(aside, target)
        except BaseException:
            system.ftp.rename(before, target)  # it is the last whole one
            raise
        with contextlib.suppress(Exception):  # it only takes room
            system.rm_file(before)
