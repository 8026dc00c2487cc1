"""Upload outputs and checkpoints, which appear in their store complete or not at all.

Buckets do this by themselves. On a file server it takes a rename; a system whose rename replaces no file, as HDFS,
writes a small file directly in its place.
"""

from __future__ import annotations

import contextlib
import ftplib
import functools
import mimetypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from jupyter_smx.agent.errors import CHANGED, DONE, FULL, MISSING, REFUSED, UNREACHABLE, FileResult
from jupyter_smx.agent.stores import filesystems, objects, retry, scan, sftp_ftp, url_schemes

_THREADS = 8
_LARGE = 1 << 24
"""Bytes from which on a file is written in blocks of this size, and is not held in memory."""
_MOST_BLOCKS = 9_000
_SINGLE = 1 << 27
"""Bytes from which on a library divides an upload itself, and takes memory for each of its parts."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_parallel(work: Callable[[_Item], _Result], things: Sequence[_Item], most: int = _THREADS) -> List[_Result]:
    """Do some work for many things; after the first that goes wrong none is begun any more."""
    wrong: List[Exception] = []

    def one(thing: _Item) -> _Result:
        if wrong:
            raise wrong[0]
        try:
            return work(thing)
        except Exception as error:
            wrong.append(error)
            raise

    with ThreadPoolExecutor(most) as workers:
        return list(workers.map(one, things))


# Outputs


def put_files(pairs: List[List[str]]) -> int:
    """Upload files to URLs; repeat after transient errors. Return the number of files."""
    large = [pair for pair in pairs if os.path.getsize(pair[0]) >= _SINGLE]
    work = functools.partial(_put_with_retry, _Connections())
    map_parallel(work, [pair for pair in pairs if pair not in large])
    map_parallel(work, large, 1)
    return len(pairs)


class _Connections:
    """The connections to the servers that outputs go to."""

    def __init__(self) -> None:
        self._pools: Dict[Tuple[str, str], sftp_ftp.ConnectionPool] = {}
        self._folders: Dict[Tuple[str, str], sftp_ftp.RemoteFolders] = {}
        self._connecting = threading.Lock()

    def connection(self, url: str) -> Tuple[sftp_ftp.ConnectionPool, sftp_ftp.RemoteFolders]:
        """Return the connections to the server of a URL, and its folders."""
        kind, _, place = url.partition("://")
        key = kind, place.partition("/")[0]
        with self._connecting:
            if key not in self._pools:
                self._pools[key], self._folders[key] = sftp_ftp.ConnectionPool(url), sftp_ftp.RemoteFolders()
        return self._pools[key], self._folders[key]


def _put_with_retry(ways: _Connections, pair: List[str]) -> None:
    source, url = pair

    def work() -> None:  # it may connect, so it may fail as what follows
        if objects.protocol(url) not in url_schemes.SERVERS:
            system, path = sftp_ftp.find_filesystem(url)
            if "file" in sftp_ftp.filesystem_protocols(system):
                system.auto_mkdir = True
            system.put_file(source, path)
            return
        lines, folders = ways.connection(url)
        with lines.borrow() as system:
            path = str(system._strip_protocol(url))  # noqa: SLF001 - what fsspec does with a URL
            folders.make(system, path.rpartition("/")[0])
            system.put_file(source, path, **sftp_ftp.block_options(system))

    retry.retry(work)


# Checkpoints: `top` is the URL that all names are below


class _ChangedError(ValueError):
    """A file changed while it was read."""


class _DestinationMissingError(ValueError):
    """There is no such bucket or server, or another host removes the folder again and again."""


def list_files(top: str, writer: str = "") -> Dict[str, Any]:
    """List the files below a URL, each with the time of its last change in seconds, or None (``rows``).

    Return ``away`` instead if the store does not answer, possibly only for a while. Temporary files that ``writer``
    left when it was killed are deleted.
    """
    found: Dict[str, Dict[str, Any]] = {}

    def look() -> None:
        system, path = sftp_ftp.find_filesystem(top, fresh=True)
        found.update(_remove_partial(system, path.rstrip("/"), writer))

    try:
        retry.retry(look)
    except Exception as error:
        if not retry.is_transient(error):
            raise
        return {"away": retry.format_error(error, top)}
    return {"rows": [[name, objects.modified_time(info)] for name, info in sorted(found.items())]}


def remove_partial_files(top: str, writer: str) -> int:
    """Delete temporary files that a killed writer left below a URL; return the number of other files."""
    system, path = sftp_ftp.find_filesystem(top, fresh=True)
    return len(_remove_partial(system, path.rstrip("/"), writer))


def _remove_partial(system: Any, top: str, writer: str) -> Dict[str, Dict[str, Any]]:
    """Leave out what is written aside, and delete what is left of it by this writer."""
    return sftp_ftp.filter_temporary(system, top, _list_below(system, top), writer)


def _list_below(system: Any, path: str) -> Dict[str, Dict[str, Any]]:
    start = f"{path}/"
    found = _walk_server(system, path or "/") if sftp_ftp.is_server(system) else system.find(path, detail=True)
    return {
        name[len(start) :]: info
        for name, info in found.items()
        if info.get("type") != "directory" and name.startswith(start) and not name.endswith("/")
    }


def _walk_server(system: Any, top: str) -> Dict[str, Dict[str, Any]]:
    """List the files of a server folder by folder, of which fsspec would leave out those that it could not list."""
    found: Dict[str, Dict[str, Any]] = {}
    left = [top]
    while left:
        folder = left.pop()
        with contextlib.suppress(FileNotFoundError):  # it is not made yet, or another host removed it
            for info in system.ls(folder, detail=True):
                if info["type"] != "directory":
                    found[info["name"]] = info
                elif info["name"].rstrip("/") != folder:
                    left.append(info["name"].rstrip("/"))
    return found


def download(top: str, rows: List[List[Any]]) -> List[FileResult]:
    """Download files by name to paths, and set their times."""
    return _apply_to_rows(top, rows, _download_one)


def _download_one(system: Any, top: str, row: List[Any]) -> None:
    name, path, changed = row
    there = f"{top}/{name}"
    try:
        retry.retry(lambda: system.get_file(there, path))
    except BaseException as error:
        # Libraries create the file before they find the object missing; an empty file would count as the newest.
        with contextlib.suppress(OSError):
            os.unlink(path)
        if isinstance(error, ftplib.error_perm) and not system.exists(there):  # FTP has only this code, for any reason
            raise FileNotFoundError(there) from error
        raise
    if changed is not None:
        os.utime(path, (changed, changed))


def upload(top: str, rows: List[List[Any]], writer: str = "") -> List[FileResult]:
    """Upload files (path, name, and the stamp that the file must still have, or None) below a URL."""
    return _apply_to_rows(top, rows, functools.partial(_upload_one, writer, sftp_ftp.RemoteFolders()))


def _upload_one(writer: str, folders: sftp_ftp.RemoteFolders, system: Any, top: str, row: List[Any]) -> None:
    path, name, stamp = row
    target = f"{top}/{name}"
    folder = target.rpartition("/")[0]

    def work() -> None:
        if not sftp_ftp.is_renaming(system):
            _write(system, path, target, stamp)
            return
        folders.make(system, folder)
        sftp_ftp.write_atomically(system, path, target, writer, is_same=lambda: _check_unchanged(path, stamp))

    def upload_into_new_folder() -> None:
        folders.make(system, folder)
        work()

    try:
        work()
    except (FileNotFoundError, ftplib.Error) as error:  # FTP has no code for a missing folder
        if retry.is_full(error) or not os.path.exists(path):
            raise
        if set(sftp_ftp.filesystem_protocols(system)) & set(url_schemes.BUCKETS):
            raise _DestinationMissingError from error
        # It was never there, or another host found it empty meanwhile.
        folders.invalidate(folder)
        _retry_once(upload_into_new_folder, path)


def _retry_once(work: Callable[[], None], path: str) -> None:
    """Do it again; if the file here exists, FileNotFoundError means that the destination is missing."""
    try:
        work()
    except FileNotFoundError as error:
        if not os.path.exists(path):
            raise
        raise _DestinationMissingError from error


def _write(system: Any, path: str, target: str, stamp: Optional[List[int]]) -> None:
    """Write an object that appears only after the file was read to its end and had not changed."""
    kind = mimetypes.guess_type(path)[0] if "s3" in sftp_ftp.filesystem_protocols(system) else None
    words = {"ContentType": kind} if kind else {}
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LARGE and "smb" not in sftp_ftp.filesystem_protocols(system):
            data = file.read()
            _check_unchanged(path, stamp)
            system.pipe_file(target, data, **words)
            return
        block = max(_LARGE, size // _MOST_BLOCKS)
        opened = system.open(target, "wb", block_size=block, autocommit=False, **words)
        # fsspec keeps the file for a transaction that never comes, even if a block could not be sent.
        system.transaction.files.clear()
        try:
            while data := file.read(block):
                opened.write(data)
            opened.close()
            _check_unchanged(path, stamp)
            opened.commit()
        except BaseException:
            _discard(opened)
            raise


def _discard(opened: Any) -> None:
    # Only the earlier error matters. An open file would be written when it is garbage-collected.
    with contextlib.suppress(Exception):
        opened.discard()
    opened.closed = True


def _check_unchanged(path: str, stamp: Optional[List[int]]) -> None:
    if stamp is not None and scan.read_stamp(path) != tuple(stamp):
        raise _ChangedError


def delete(top: str, rows: List[str]) -> List[FileResult]:
    """Delete what has these names below a URL."""
    return _apply_to_rows(top, rows, _delete_one)


def _delete_one(system: Any, top: str, name: str) -> None:
    try:
        system.rm_file(f"{top}/{name}")
    except FileNotFoundError:
        pass
    except ftplib.error_perm:  # FTP has only this code, for any reason
        if system.exists(f"{top}/{name}"):
            raise
    if sftp_ftp.is_server(system):
        with contextlib.suppress(Exception):  # another host wrote into it meanwhile, or took it away
            _remove_empty_folders(system, f"{top}/{name}", top)


def _remove_empty_folders(system: Any, path: str, top: str) -> None:
    """Remove the folders that a file leaves empty, because a file may need the name of one."""
    folder = path.rpartition("/")[0]
    while folder != top and not system.ls(folder, detail=False):
        system.rmdir(folder)
        folder = folder.rpartition("/")[0]


def _apply_to_rows(top: str, rows: Sequence[_Item], act: Callable[[Any, str, _Item], None]) -> List[FileResult]:
    """Apply a function to each row; if the store does not answer once, the remaining rows get the same result."""
    found: List[sftp_ftp.ConnectionPool] = []
    reached = _attempt(lambda: found.append(sftp_ftp.ConnectionPool(top)), top)
    if not found:  # a missing key for the connection, for example, does not mean that a file is gone
        return [FileResult(REFUSED, reached.message) if reached.status == MISSING else reached] * len(rows)
    (lines,) = found
    away: List[FileResult] = []

    def do(row: _Item) -> None:
        with lines.borrow() as system:
            act(system, lines.path, row)

    def one(row: _Item) -> FileResult:
        if away:
            return away[0]
        became = _attempt(lambda: do(row), top)
        if became.status == UNREACHABLE:
            away.append(became)
        return became

    return map_parallel(one, rows)


def _attempt(act: Callable[[], None], top: str) -> FileResult:
    try:
        act()
    except filesystems.PackageMissingError:
        raise
    except _ChangedError:
        return FileResult(CHANGED)
    except FileNotFoundError as error:
        return FileResult(MISSING, str(error))
    except _DestinationMissingError as error:
        return FileResult(REFUSED, retry.format_error(error.__cause__ or error, top).rstrip("."))
    except Exception as error:  # noqa: BLE001 - border: libraries of stores raise whatever they like
        how = UNREACHABLE if retry.is_transient(error) else REFUSED
        if retry.is_full(error):
            how = FULL
        return FileResult(how, retry.format_error(error, top).rstrip("."))
    return FileResult(DONE)
