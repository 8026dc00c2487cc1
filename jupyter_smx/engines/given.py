"""Files and folders of this machine within reach of a host that sees its own folder only: links to them, else copies.

They lie in ``<host folder>/given/<number>/<name>``, which the host is shown where nobody there can write. Beside the
host's folder, where no job comes, stands what each was made from, so that what has not changed is not made anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_smx.engines.host_folder import HostFolder

KEPT = 32
"""Things that a host keeps beside those that its job needs."""
_FOLDER, _PROGRAM, _FILE = 0o755, 0o555, 0o444
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


class Reader(Struct, frozen=True):
    """Who reads in the host, by number; -1 is whoever runs this."""

    uid: int = -1
    gid: int = -1

    def may_read(self, found: os.stat_result) -> bool:
        """Say whether the reader can read a file as it is."""
        mode = found.st_mode
        if self.uid in (-1, 0):
            return True
        if found.st_uid == self.uid:
            return bool(mode & stat.S_IRUSR)
        return bool(mode & (stat.S_IRGRP if found.st_gid == self.gid else stat.S_IROTH))


class Item(Struct, frozen=True):
    """One thing that was given: what it was when it was, and the number of its folder."""

    stamp: str
    number: int


def bring(folder: HostFolder, sources: Sequence[str], inside: str, reader: Reader) -> dict[str, str]:
    """Put the sources into a host's ``given``, called ``inside`` there. Gives where each is found. Blocks.

    :raises RefusedError: one of them is not there, cannot be read, or is no file and no folder; or the disk is full.
    """
    known = _read(folder)
    found: dict[str, str] = {}
    source = ""
    try:
        for source in sources:
            found[source] = _one(folder, source, known, inside, reader)
        _prune(folder, known, {*sources})
        _write(folder, known)
    except OSError as problem:
        raise _refusal(source, problem) from problem
    return found


def _one(folder: HostFolder, source: str, known: dict[str, Item], inside: str, reader: Reader) -> str:
    name = Path(source).resolve().name or "root"
    stamp = _stamp(Path(source))
    have = known.pop(source, None)
    if have is None or have.stamp != stamp or not _room(folder, have.number).joinpath(name).exists():
        if have is not None:
            _remove(_room(folder, have.number))
        number = 1 + max((item.number for item in known.values()), default=0)
        number = max(number, 1 + (have.number if have is not None else 0))
        _make(Path(source), _room(folder, number), name, reader)
        have = Item(stamp, number)
    known[source] = have  # the last one in the order is the one that was needed last
    return f"{inside}/{have.number}/{name}"


def _make(source: Path, room: Path, name: str, reader: Reader) -> None:
    _remove(room)
    room.mkdir(mode=_FOLDER)
    room.chmod(_FOLDER)
    try:
        _give(source, room / name, reader, ())
    except BaseException:
        _remove(room)
        raise


def _give(source: Path, target: Path, reader: Reader, above: tuple[tuple[int, int], ...]) -> None:
    """Put one thing in place, and what its links lead to; a link to nothing, or to a folder above it, stays a link."""
    try:
        found = source.stat()
    except OSError as problem:
        if source.is_symlink() and problem.errno in (errno.ENOENT, errno.ELOOP):
            target.symlink_to(source.readlink())
            return
        raise
    here = (found.st_dev, found.st_ino)
    if stat.S_ISDIR(found.st_mode):
        if here in above:
            target.symlink_to(source.readlink())
            return
        target.mkdir(mode=_FOLDER)
        target.chmod(_FOLDER)
        for entry in sorted(os.scandir(source), key=lambda one: one.name):
            _give(Path(entry.path), target / entry.name, reader, (*above, here))
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    elif stat.S_ISREG(found.st_mode):
        _give_file(source, target, found, reader)
    else:
        raise OSError(errno.EINVAL, "it is neither a file nor a folder", str(source))


def _give_file(source: Path, target: Path, found: os.stat_result, reader: Reader) -> None:
    if reader.may_read(found):
        try:
            os.link(source.resolve(), target)
        except OSError as problem:
            if problem.errno not in _CANNOT_LINK:
                raise
        else:
            return
    shutil.copyfile(source, target)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    target.chmod(_PROGRAM if found.st_mode & stat.S_IXUSR else _FILE)


def _stamp(source: Path) -> str:
    """Give what changes when anything in it does; reads no content.

    :raises OSError: it is not there or cannot be looked at.
    """
    digest = hashlib.sha256()
    for name, found in _looks(source, source.stat()):
        facts = (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns)
        digest.update(f"{name!a} {facts}\n".encode())
    return digest.hexdigest()


def _looks(source: Path, found: os.stat_result) -> Iterator[tuple[str, os.stat_result]]:
    yield str(source), found
    if not stat.S_ISDIR(found.st_mode):
        return
    for top, folders, files in os.walk(source, followlinks=True, onerror=_raise):
        folders.sort()
        real = {os.path.realpath(top), *map(os.path.realpath, map(str, Path(top).parents))}
        folders[:] = [name for name in folders if os.path.realpath(Path(top, name)) not in real]
        for name in sorted([*folders, *files]):
            path = Path(top, name)
            try:
                yield str(path), path.stat()
            except OSError:
                yield str(path), path.lstat()


def _raise(problem: OSError) -> None:
    raise problem


def _prune(folder: HostFolder, known: dict[str, Item], needed: set[str]) -> None:
    idle = [source for source in known if source not in needed]
    for source in idle[: max(0, len(idle) - KEPT)]:
        _remove(_room(folder, known.pop(source).number))


def _room(folder: HostFolder, number: int) -> Path:
    return folder.path / "given" / str(number)


def _remove(room: Path) -> None:
    shutil.rmtree(room, ignore_errors=True)


def record(folder: HostFolder) -> Path:
    """Give the file that says what was given to a host."""
    return folder.path.parent / f"given-{folder.path.name}.json"


def _read(folder: HostFolder) -> dict[str, Item]:
    try:
        rows = json.loads(record(folder).read_text(encoding="utf-8"))
        return {str(source): Item(str(stamp), int(number)) for source, stamp, number in rows}
    except (OSError, ValueError, TypeError):
        return {}  # nothing is known, so everything is made anew under the next number


def _write(folder: HostFolder, known: dict[str, Item]) -> None:
    rows = [[source, item.stamp, item.number] for source, item in known.items()]
    temporary = record(folder).with_suffix(".part")
    temporary.write_text(json.dumps(rows), encoding="utf-8")
    temporary.replace(record(folder))


def _refusal(source: str, problem: OSError) -> RefusedError:
    where = problem.filename or source
    return RefusedError(
        f"source: {source!r} cannot be given to the host: {where!r}, {problem.strerror or problem}.",
        field="source",
        value=source,
        rule="A host that is a container sees files and folders that are linked or copied into its own folder.",
        cure="Name one that is there and that you may read, and see that the disk has room.",
        transient=problem.errno == errno.ENOSPC,
    )
