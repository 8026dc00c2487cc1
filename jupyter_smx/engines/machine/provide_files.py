"""Provide files of this machine to a host that sees only its own folder: by links, else by copies.

They are in ``<host folder>/given/<number>/<name>``, which the host sees read-only. A record of their sources is beside
the host's folder, which jobs do not see, so that unchanged files are not copied again.

Files that cannot be linked, because they are on another disk or only this user may read them, are copied: once for all
hosts of a cluster, and only if there is space for all of them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.agent.errors import is_temporary
from jupyter_smx.agent.system.files import host_layout, rmtree
from jupyter_smx.agent.system.files.walk import descend, raise_unless_loop
from jupyter_smx.agent.system.resources.memory import format_size
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.engines.machine.host_folder import FILES_LOCK, RELEASED_MARKER
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from jupyter_smx.engines.machine.host_folder import HostFolder

MAX_UNUSED = 32
"""Things that a host keeps beside those that its job needs."""
_FOLDER, _PROGRAM, _FILE = 0o755, 0o555, 0o444
_LINK_ERRORS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_RECORD = "given-{}.json"
_CHUNK_SIZE = 4 << 20
"""Bytes that are copied between two checks for cancellation."""


class FileReader(Struct, frozen=True):
    """The user that reads in the host, by number; -1 is the current user."""

    uid: int = -1
    gid: int = -1

    def may_read(self, found: os.stat_result) -> bool:
        """Return True if the reader can read a file as it is."""
        mode = found.st_mode
        if self.uid == -1:
            return True
        # Root as well: in a container it may do no more than other users.
        if found.st_uid == self.uid:
            return bool(mode & stat.S_IRUSR)
        return bool(mode & (stat.S_IRGRP if found.st_gid == self.gid else stat.S_IROTH))


class ProvidedFile(Struct, frozen=True):
    """One provided source: its fingerprint at that time, the number of its folder, and the bytes that are copies."""

    stamp: str
    number: int
    copied: int = 0


class _CopyStep(Struct, frozen=True):
    """One step of a copy: source, target, the same file for another host, and the folders above it."""

    source: Path
    target: Path
    twin: Path | None
    above: tuple[tuple[int, int], ...] = ()

    def stat(self) -> os.stat_result | None:
        """Return its status; None for a link to nothing.

        :raises OSError: it does not exist or cannot be looked up.
        """
        try:
            return self.source.stat()
        except OSError as problem:
            if self.source.is_symlink() and problem.errno in (errno.ENOENT, errno.ELOOP):
                return None
            raise

    def is_cycle(self, found: os.stat_result) -> bool:
        """Return True if it is one of the folders that contain it."""
        return (found.st_dev, found.st_ino) in self.above

    def child(self, name: str, found: os.stat_result) -> _CopyStep:
        """Take the step to what lies in it."""
        twin = None if self.twin is None else self.twin / name
        return _CopyStep(self.source / name, self.target / name, twin, (*self.above, (found.st_dev, found.st_ino)))


def provide_files(
    folder: HostFolder, sources: Sequence[str], inside: str, reader: FileReader, given_up: Callable[[], bool] = bool
) -> dict[str, str]:
    """Put the sources into a host's ``given``, called ``inside`` there. Return the path of each. Blocks.

    :raises RefusedError: one of them does not exist, cannot be read, or is no file or folder; or the disk is full.
    :raises UnavailableError: the cluster was released meanwhile, or ``given_up`` returns true.
    """
    source = ""
    try:
        with file_lock.acquire(folder.path.parent / FILES_LOCK, given_up):
            given = _ProvidedFiles(folder, reader, {*sources}, given_up)
            found: dict[str, str] = {}
            try:
                for source in sources:
                    found[source] = f"{inside}/{given.provide(source)}"
            except BaseException:
                with suppress(OSError):
                    given.save()  # sources that exist already need not be copied again
                raise
            given.prune()
            given.save()
    except OSError as problem:
        raise _refusal(source, problem) from problem
    return found


class _ProvidedFiles:
    """Files that were provided to one host; ``needed`` are the sources of its next job."""

    def __init__(
        self, folder: HostFolder, reader: FileReader, needed: Collection[str], given_up: Callable[[], bool]
    ) -> None:
        self._folder = folder.path / host_layout.PROVIDED
        self._record = record_path(folder)
        self._released = folder.path.parent / RELEASED_MARKER
        self._reader = reader
        self._needed = needed
        self._is_cancelled = given_up
        self.check_cancelled()
        self._disk = self._folder.stat().st_dev
        self._items, following = _read_record(self._record)
        self._saved_items = [*self._items.items()]
        # Use no number twice, even if the record of the files that lie there is lost.
        used = (*self._numbers(), *(item.number for item in self._items.values()))
        self._next_number = max(following, 1 + max(used, default=0))

    def check_cancelled(self) -> None:
        """Check that the request was not cancelled.

        :raises UnavailableError: it was cancelled.
        """
        if self._is_cancelled() or self._released.exists():
            raise UnavailableError("The host was released while inputs were copied to it.", transient=True)

    def provide(self, source: str) -> str:
        """Provide the current state of a source; return the number of its folder, and its name in it."""
        path = Path(source)
        name = path.resolve().name or "root"
        stamp, weight = self._fingerprint(path)
        item = self._items.get(source)
        if item is None or item.stamp != stamp or not (self._item_folder(item) / name).exists():
            self._discard(source)
            item = self._create(path, name, stamp, weight)
        self._items.pop(source, None)
        self._items[source] = item  # moves it to the end: the order is that of the last use
        return f"{item.number}/{name}"

    def _fingerprint(self, source: Path) -> tuple[str, int]:
        """Return a fingerprint that changes with anything in a source, and the bytes to copy; reads no content.

        :raises OSError: it does not exist or cannot be looked up.
        """
        digest, weight = hashlib.sha256(), 0
        for name, found in _walk(source, source.stat()):
            self.check_cancelled()
            who = (found.st_uid, found.st_gid, found.st_mode)  # they decide on access
            facts = (found.st_dev, found.st_ino, *who, found.st_size, found.st_mtime_ns)
            digest.update(f"{name!a} {facts}\n".encode())
            if stat.S_ISREG(found.st_mode) and not self._can_link(name, found):
                weight += found.st_size
        return digest.hexdigest(), weight

    def _can_link(self, path: str, found: os.stat_result) -> bool:
        if found.st_dev != self._disk or not self._reader.may_read(found):
            return False
        # Linux refuses a hard link to another user's file without permission to write to that.
        return os.geteuid() in (0, found.st_uid) or os.access(path, os.R_OK | os.W_OK)

    def _create(self, source: Path, name: str, stamp: str, weight: int) -> ProvidedFile:
        twin = self._find_duplicate(os.fspath(source), stamp)
        if twin is None:
            self._find_space(source, weight)
        item = ProvidedFile(stamp, self._next_number, weight)
        self._next_number += 1
        room = self._item_folder(item)
        room.mkdir(mode=_FOLDER)
        room.chmod(_FOLDER)
        try:
            self._copy_tree(source, room / name, None if twin is None else twin / name)
        except BaseException:
            _remove(room)
            raise
        return item

    def _find_duplicate(self, source: str, stamp: str) -> Path | None:
        """Find the folder in which another host of the cluster has the same, so that no copy is made twice."""
        for each in sorted(self._record.parent.glob(_RECORD.format("*"))):
            item = _read_record(each)[0].get(source) if each != self._record else None
            if item is not None and item.stamp == stamp:
                return (
                    each.parent
                    / each.stem.removeprefix(_RECORD.partition("{")[0])
                    / host_layout.PROVIDED
                    / str(item.number)
                )
        return None

    def _find_space(self, source: Path, weight: int) -> None:
        """Ensure space for copies; remove copies that no job needs, if necessary.

        :raises RefusedError: there is too little, with the free space. A retry may help if copies were removed.
        """
        went = False
        while weight and weight > (room := self._free_bytes()):
            idle = [each for each in self._unused() if self._items[each].copied]
            if not idle:
                raise _no_space_error(source, weight, room, self._folder, again=went)
            self._discard(idle[0])
            went = True

    def _free_bytes(self) -> int:
        """Count the bytes that copies may take: a tenth of what is free stays free, for all that jobs write."""
        return shutil.disk_usage(self._folder).free * 9 // 10

    def _copy_tree(self, source: Path, target: Path, twin: Path | None) -> None:
        """Copy one entry and the targets of its links; keep links to nothing, or to a folder above, as links."""
        waiting = [_CopyStep(source, target, twin)]
        made: list[tuple[Path, os.stat_result]] = []
        while waiting:
            self.check_cancelled()
            step = waiting.pop()
            found = step.stat()
            if found is None or step.is_cycle(found):
                step.target.symlink_to(step.source.readlink())
            elif stat.S_ISDIR(found.st_mode):
                step.target.mkdir(mode=_FOLDER)
                step.target.chmod(_FOLDER)
                made.append((step.target, found))
                inside = sorted(each.name for each in step.source.iterdir())
                waiting += [step.child(name, found) for name in reversed(inside)]
            elif stat.S_ISREG(found.st_mode):
                self._link_or_copy(step.source, step.target, step.twin, found)
            else:
                raise OSError(errno.EINVAL, "it is not a file or folder", str(step.source))
        for folder, found in reversed(made):  # what is put into a folder changes its time
            os.utime(folder, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _link_or_copy(self, source: Path, target: Path, twin: Path | None, found: os.stat_result) -> None:
        if self._reader.may_read(found) and _try_link(source.resolve(), target):
            return
        with suppress(OSError):  # if the other host's file is gone, the source remains
            if twin is not None and _try_link(twin, target):
                return
        self._copy(source, target)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        target.chmod(_PROGRAM if found.st_mode & stat.S_IXUSR else _FILE)

    def _copy(self, source: Path, target: Path) -> None:
        with source.open("rb", buffering=0) as old, target.open("xb") as new:
            while piece := old.read(_CHUNK_SIZE):
                new.write(piece)
                self.check_cancelled()

    def prune(self) -> None:
        """Remove what no job needs now: beyond a number of items, and beyond the free bytes for copies."""
        idle = self._unused()
        while len(idle) > MAX_UNUSED or self._is_over_budget(idle):
            self._discard(idle.pop(0))
        known = {item.number for item in self._items.values()}
        for number in self._numbers():
            if number not in known:
                _remove(self._folder / str(number))

    def _is_over_budget(self, idle: Sequence[str]) -> bool:
        copied = sum(self._items[each].copied for each in idle)
        return copied > 0 and copied > self._free_bytes()

    def _unused(self) -> list[str]:
        """Return what the next job does not need, least recently needed first."""
        return [source for source in self._items if source not in self._needed]

    def _discard(self, source: str) -> None:
        item = self._items.pop(source, None)
        if item is not None:
            _remove(self._item_folder(item))

    def _item_folder(self, item: ProvidedFile) -> Path:
        return self._folder / str(item.number)

    def _numbers(self) -> list[int]:
        return [int(room.name) for room in self._folder.iterdir() if room.name.isdecimal()]

    def save(self) -> None:
        """Write the record of provided sources if it changed."""
        if self._saved_items == [*self._items.items()]:
            return
        rows = [[source, item.stamp, item.number, item.copied] for source, item in self._items.items()]
        temporary = self._record.with_suffix(".part")
        temporary.write_text(json.dumps({"next": self._next_number, "items": rows}), encoding="utf-8")
        temporary.replace(self._record)


def _walk(source: Path, found: os.stat_result) -> Iterator[tuple[str, os.stat_result]]:
    yield str(source), found
    if not stat.S_ISDIR(found.st_mode):
        return
    for level in descend(os.fspath(source), follow=True, on_error=raise_unless_loop):
        for entry in [*level.folders, *level.files]:
            yield entry.path, _stat_entry(entry)


def _stat_entry(entry: os.DirEntry[str]) -> os.stat_result:
    """Return the status of an entry's target, or of the link itself if it is broken."""
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)


def _try_link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as problem:
        if problem.errno not in _LINK_ERRORS:
            raise
        return False
    return True


def _remove(room: Path) -> None:
    rmtree.remove_if_possible(os.fspath(room))


def record_path(folder: HostFolder) -> Path:
    """Return the record of the sources provided to a host."""
    return folder.path.parent / _RECORD.format(folder.path.name)


def _read_record(path: Path) -> tuple[dict[str, ProvidedFile], int]:
    """Read the record and the next number; if it is unreadable, everything is provided again."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        rows, following = (said["items"], said["next"]) if isinstance(said, dict) else (said, 1)
        items = {
            str(source): ProvidedFile(str(stamp), int(number), *map(int, more)) for source, stamp, number, *more in rows
        }
        return items, int(following)
    except (OSError, ValueError, TypeError, KeyError):
        return {}, 1


def _refusal(source: str, problem: OSError) -> RefusedError:
    where = problem.filename or source
    what = f"{source!r} cannot" if source else "nothing can"
    return RefusedError(
        f"source: {what} be given to the host: {where!r}, {problem.strerror or problem}.",
        field="source",
        value=source,
        rule="A container host sees only files that are linked or copied into its folder.",
        cure="Check that the path exists and is readable, and that the disk has free space.",
        transient=is_temporary(problem),
    )


def _no_space_error(source: Path, weight: int, room: int, rooms: Path, *, again: bool) -> RefusedError:
    disk = rooms.parents[2]
    return RefusedError(
        f"source: {os.fspath(source)!r} cannot be given to the host: {format_size(weight)} must be copied, but "
        f"only {format_size(room)} are free for it on the disk of {os.fspath(disk)!r}.",
        field="source",
        value=os.fspath(source),
        rule="Files on another disk, or readable only by their owner, are copied; a tenth of the free space stays "
        "free.",
        cure="Move it to that disk, set JUPYTER_SMX_DATA_DIR to its disk, use a URL, or free space.",
        transient=again,
    )
