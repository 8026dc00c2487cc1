"""What a courier writes: outputs, and the checkpoints of a job, which appear in their store whole or not at all.

That is what buckets do by themselves. On a server of files it takes a rename; who has none that replaces a file, as
HDFS, writes a small one in its place.
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

from jupyter_smx.agent import file_result
from jupyter_smx.agent.file_result import Outcome
from jupyter_smx.agent.stores import etag, filesystems, objects, retry, scan, sftp_ftp

_AT_ONCE = 8
_LARGE = 1 << 24
"""Bytes from which on a file is written in blocks of this size, and is not held in memory."""
_MOST_BLOCKS = 9_000
_SINGLE = 1 << 27
"""Bytes from which on a library divides an upload itself, and takes memory for each of its parts."""
_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "az", "oci", "oss", "tos")
"""Protocols whose folders are a part of a name, so that none is ever made."""
_One = TypeVar("_One")
_Found = TypeVar("_Found")


def at_once(work: Callable[[_One], _Found], things: Sequence[_One], most: int = _AT_ONCE) -> List[_Found]:
    """Do some work for many things; after the first that goes wrong none is begun any more."""
    wrong: List[Exception] = []

    def one(thing: _One) -> _Found:
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


def put(pairs: List[List[str]]) -> int:
    """Put files at URLs; what may pass is tried again. Gives how many there are now."""
    large = [pair for pair in pairs if os.path.getsize(pair[0]) >= _SINGLE]
    work = functools.partial(_surely_put, _Ways())
    at_once(work, [pair for pair in pairs if pair not in large])
    at_once(work, large, 1)
    return len(pairs)


class _Ways:
    """The connections to the servers that outputs go to."""

    def __init__(self) -> None:
        self._lines: Dict[Tuple[str, str], sftp_ftp.Lines] = {}
        self._folders: Dict[Tuple[str, str], sftp_ftp.Folders] = {}
        self._connecting = threading.Lock()

    def to(self, url: str) -> Tuple[sftp_ftp.Lines, sftp_ftp.Folders]:
        """Give those to the server of a URL, and its folders."""
        kind, _, place = url.partition("://")
        key = kind, place.partition("/")[0]
        with self._connecting:
            if key not in self._lines:
                self._lines[key], self._folders[key] = sftp_ftp.Lines(url), sftp_ftp.Folders()
        return self._lines[key], self._folders[key]


def _surely_put(ways: _Ways, pair: List[str]) -> None:
    source, url = pair

    def work() -> None:  # it may connect, so it may fail as what follows
        if objects.protocol(url) not in objects.SERVERS:
            system, path = sftp_ftp.find(url)
            if "file" in sftp_ftp.protocols(system):
                system.auto_mkdir = True
            system.put_file(source, path)
            return
        lines, folders = ways.to(url)
        with lines.one() as system:
            path = str(system._strip_protocol(url))  # noqa: SLF001 - what fsspec does with a URL
            folders.make(system, path.rpartition("/")[0])
            system.put_file(source, path, **sftp_ftp.block(system))

    retry.surely(work)


# Checkpoints: `top` is the URL that all names are below


class _ChangedError(ValueError):
    """A file changed while it was read."""


class _NoPlaceError(ValueError):
    """There is no such bucket, or no such server, or the folder is taken away again and again."""


def names(top: str, writer: str = "") -> Dict[str, Any]:
    """Name what lies below a URL, each with the time of its last change in seconds, or None (``rows``).

    ``away`` says instead that the store does not answer, which may pass. What ``writer`` was writing aside when it was
    killed is deleted.
    """
    found: Dict[str, Dict[str, Any]] = {}

    def look() -> None:
        system, path = sftp_ftp.find(top, fresh=True)
        found.update(_whole(system, path.rstrip("/"), writer))

    try:
        retry.surely(look)
    except Exception as error:
        if not retry.may_pass(error):
            raise
        return {"away": retry.explained(error, top)}
    return {"rows": [[name, etag.changed(info)] for name, info in sorted(found.items())]}


def sweep(top: str, writer: str) -> int:
    """Delete what a writer was writing aside below a URL when it was killed; gives how many files are there."""
    system, path = sftp_ftp.find(top, fresh=True)
    return len(_whole(system, path.rstrip("/"), writer))


def _whole(system: Any, top: str, writer: str) -> Dict[str, Dict[str, Any]]:
    """Leave out what is written aside, and delete what is left of it by this writer."""
    return sftp_ftp.sweep(system, top, _below(system, top), writer)


def _below(system: Any, path: str) -> Dict[str, Dict[str, Any]]:
    start = f"{path}/"
    found = _on_server(system, path or "/") if sftp_ftp.is_server(system) else system.find(path, detail=True)
    return {
        name[len(start) :]: info
        for name, info in found.items()
        if info.get("type") != "directory" and name.startswith(start) and not name.endswith("/")
    }


def _on_server(system: Any, top: str) -> Dict[str, Dict[str, Any]]:
    """List the files of a server folder by folder, of which fsspec would leave out those that it could not list."""
    found: Dict[str, Dict[str, Any]] = {}
    left = [top]
    while left:
        folder = left.pop()
        with contextlib.suppress(FileNotFoundError):  # nobody has made it yet, or another host took it away
            for info in system.ls(folder, detail=True):
                if info["type"] != "directory":
                    found[info["name"]] = info
                elif info["name"].rstrip("/") != folder:
                    left.append(info["name"].rstrip("/"))
    return found


def bring(top: str, rows: List[List[Any]]) -> List[Outcome]:
    """Bring what has these names into files of these paths, which get these times."""
    return _each(top, rows, _bring)


def _bring(system: Any, top: str, row: List[Any]) -> None:
    name, path, changed = row
    there = f"{top}/{name}"
    try:
        retry.surely(lambda: system.get_file(there, path))
    except BaseException as error:
        # Libraries open it before they ask for what is not there, and an empty file would be taken for the newest.
        with contextlib.suppress(OSError):
            os.unlink(path)
        if isinstance(error, ftplib.error_perm) and not system.exists(there):  # it says no more than that
            raise FileNotFoundError(there) from error
        raise
    if changed is not None:
        os.utime(path, (changed, changed))


def keep(top: str, rows: List[List[Any]], writer: str = "") -> List[Outcome]:
    """Put files (path, name, and what the file has to be like still, or None) below a URL."""
    return _each(top, rows, functools.partial(_keep, writer, sftp_ftp.Folders()))


def _keep(writer: str, folders: sftp_ftp.Folders, system: Any, top: str, row: List[Any]) -> None:
    path, name, stamp = row
    target = f"{top}/{name}"
    folder = target.rpartition("/")[0]

    def work() -> None:
        if not sftp_ftp.renames(system):
            _write(system, path, target, stamp)
            return
        folders.make(system, folder)
        sftp_ftp.write(system, path, target, writer, is_same=lambda: _be_same(path, stamp))

    def again() -> None:
        folders.make(system, folder)
        work()

    try:
        work()
    except (FileNotFoundError, ftplib.Error) as error:  # FTP has no word for it
        if retry.is_full(error) or not os.path.exists(path):
            raise
        if set(sftp_ftp.protocols(system)) & set(_BUCKETS):
            raise _NoPlaceError from error
        # It was never there, or another host found it empty meanwhile.
        folders.forget(folder)
        _once_more(again, path)


def _once_more(work: Callable[[], None], path: str) -> None:
    """Do it again; that something is not found says that the file here is gone only where it is."""
    try:
        work()
    except FileNotFoundError as error:
        if not os.path.exists(path):
            raise
        raise _NoPlaceError from error


def _write(system: Any, path: str, target: str, stamp: Optional[List[int]]) -> None:
    """Write an object, of which nothing is to be seen before the file was read to its end as it was."""
    kind = mimetypes.guess_type(path)[0] if "s3" in sftp_ftp.protocols(system) else None
    words = {"ContentType": kind} if kind else {}
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LARGE and "smb" not in sftp_ftp.protocols(system):
            data = file.read()
            _be_same(path, stamp)
            system.pipe_file(target, data, **words)
            return
        block = max(_LARGE, size // _MOST_BLOCKS)
        opened = system.open(target, "wb", block_size=block, autocommit=False, **words)
        # fsspec holds it for a transaction that never comes, also with a block that could not be sent.
        system.transaction.files.clear()
        try:
            while data := file.read(block):
                opened.write(data)
            opened.close()
            _be_same(path, stamp)
            opened.commit()
        except BaseException:
            _give_up(opened)
            raise


def _give_up(opened: Any) -> None:
    # Whatever it says of that, what went wrong before is what matters; an open one would be written when forgotten.
    with contextlib.suppress(Exception):
        opened.discard()
    opened.closed = True


def _be_same(path: str, stamp: Optional[List[int]]) -> None:
    if stamp is not None and scan.stamp(path) != tuple(stamp):
        raise _ChangedError


def drop(top: str, rows: List[str]) -> List[Outcome]:
    """Delete what has these names below a URL."""
    return _each(top, rows, _drop)


def _drop(system: Any, top: str, name: str) -> None:
    try:
        system.rm_file(f"{top}/{name}")
    except FileNotFoundError:
        pass
    except ftplib.error_perm:  # it says no more than that
        if system.exists(f"{top}/{name}"):
            raise
    if sftp_ftp.is_server(system):
        with contextlib.suppress(Exception):  # another host wrote into it meanwhile, or took it away
            _tidy(system, f"{top}/{name}", top)


def _tidy(system: Any, path: str, top: str) -> None:
    """Remove the folders that a file leaves empty: a file may want the name of one."""
    folder = path.rpartition("/")[0]
    while folder != top and not system.ls(folder, detail=False):
        system.rmdir(folder)
        folder = folder.rpartition("/")[0]


def _each(top: str, rows: Sequence[_One], act: Callable[[Any, str, _One], None]) -> List[Outcome]:
    """Do something with each; where the store does not answer once, the rest is not asked for, and counts the same."""
    found: List[sftp_ftp.Lines] = []
    reached = _outcome(lambda: found.append(sftp_ftp.Lines(top)), top)
    if not found:  # also what is not found on the way there, as a key, is no sign that a file is gone
        return [Outcome(file_result.REFUSED, reached.said) if reached.how == file_result.GONE else reached] * len(rows)
    (lines,) = found
    away: List[Outcome] = []

    def do(row: _One) -> None:
        with lines.one() as system:
            act(system, lines.path, row)

    def one(row: _One) -> Outcome:
        if away:
            return away[0]
        became = _outcome(lambda: do(row), top)
        if became.how == file_result.AWAY:
            away.append(became)
        return became

    return at_once(one, rows)


def _outcome(act: Callable[[], None], top: str) -> Outcome:
    try:
        act()
    except filesystems.LackError:
        raise
    except _ChangedError:
        return Outcome(file_result.CHANGED)
    except FileNotFoundError as error:
        return Outcome(file_result.GONE, str(error))
    except _NoPlaceError as error:
        return Outcome(file_result.REFUSED, retry.explained(error.__cause__ or error, top).rstrip("."))
    except Exception as error:  # noqa: BLE001 - border: libraries of stores raise whatever they like
        how = file_result.AWAY if retry.may_pass(error) else file_result.REFUSED
        if retry.is_full(error):
            how = file_result.FULL
        return Outcome(how, retry.explained(error, top).rstrip("."))
    return Outcome(file_result.DONE)
