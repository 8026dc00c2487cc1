"""Files and folders of this machine within reach of a host that sees its own folder only: links to them, else copies.

They lie in ``<host folder>/given/<number>/<name>``, which the host is shown where nobody there can write. Beside the
host's folder, where no job comes, stands what each was made from, so that what has not changed is not made anew.

What cannot be linked, since it lies on another disk or only this user may read it, is copied: once for all hosts of
a cluster, and only where there is room for all of it.
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

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.files.walk import descend, unless_loop
from jupyter_smx.agent.system.resources.memory import amount
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.engines.machine.host_folder import GIVEN_LOCK, RELEASED
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from jupyter_smx.engines.machine.host_folder import HostFolder

KEPT = 32
"""Things that a host keeps beside those that its job needs."""
_FOLDER, _PROGRAM, _FILE = 0o755, 0o555, 0o444
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_RECORD = "given-{}.json"
_PIECE = 4 << 20
"""Bytes that are copied between two looks at whether that is wanted any more."""


class Reader(Struct, frozen=True):
    """Who reads in the host, by number; -1 is whoever runs this."""

    uid: int = -1
    gid: int = -1

    def may_read(self, found: os.stat_result) -> bool:
        """Say whether the reader can read a file as it is."""
        mode = found.st_mode
        if self.uid == -1:
            return True
        # Root as well: in a container it may do no more than anybody else.
        if found.st_uid == self.uid:
            return bool(mode & stat.S_IRUSR)
        return bool(mode & (stat.S_IRGRP if found.st_gid == self.gid else stat.S_IROTH))


class Item(Struct, frozen=True):
    """One thing that was given: what it was when it was, the number of its folder, and how much of it are copies."""

    stamp: str
    number: int
    copied: int = 0


class _Step(Struct, frozen=True):
    """One thing that is to be put in place: from where, to where, where another host has it, and what it lies in."""

    source: Path
    target: Path
    twin: Path | None
    above: tuple[tuple[int, int], ...] = ()

    def look(self) -> os.stat_result | None:
        """Look at what it is; None of a link to nothing.

        :raises OSError: it is not there or cannot be looked at.
        """
        try:
            return self.source.stat()
        except OSError as problem:
            if self.source.is_symlink() and problem.errno in (errno.ENOENT, errno.ELOOP):
                return None
            raise

    def leads_back(self, found: os.stat_result) -> bool:
        """Say whether it is a folder that it lies in."""
        return (found.st_dev, found.st_ino) in self.above

    def inner(self, name: str, found: os.stat_result) -> _Step:
        """Take the step to what lies in it."""
        twin = None if self.twin is None else self.twin / name
        return _Step(self.source / name, self.target / name, twin, (*self.above, (found.st_dev, found.st_ino)))


def bring(
    folder: HostFolder, sources: Sequence[str], inside: str, reader: Reader, given_up: Callable[[], bool] = bool
) -> dict[str, str]:
    """Put the sources into a host's ``given``, called ``inside`` there. Gives where each is found. Blocks.

    :raises RefusedError: one of them is not there, cannot be read, or is no file and no folder; or there is no room.
    :raises UnavailableError: the cluster was released meanwhile, or ``given_up`` says that it is not wanted any more.
    """
    source = ""
    try:
        with file_lock.held(folder.path.parent / GIVEN_LOCK, given_up):
            given = _Given(folder, reader, {*sources}, given_up)
            found: dict[str, str] = {}
            try:
                for source in sources:
                    found[source] = f"{inside}/{given.have(source)}"
            except BaseException:
                with suppress(OSError):
                    given.write_down()  # what is there already need not be brought again
                raise
            given.prune()
            given.write_down()
    except OSError as problem:
        raise _refusal(source, problem) from problem
    return found


class _Given:
    """What one host was given; ``needed`` are the sources that its next job wants."""

    def __init__(
        self, folder: HostFolder, reader: Reader, needed: Collection[str], given_up: Callable[[], bool]
    ) -> None:
        self._rooms = folder.path / "given"
        self._record = record(folder)
        self._released = folder.path.parent / RELEASED
        self._reader = reader
        self._needed = needed
        self._given_up = given_up
        self.go_on()
        self._disk = self._rooms.stat().st_dev
        self._known, following = _read(self._record)
        self._before = [*self._known.items()]
        # No number is used twice, also where nothing is known any more of what lies there.
        used = (*self._numbers(), *(item.number for item in self._known.values()))
        self._following = max(following, 1 + max(used, default=0))

    def go_on(self) -> None:
        """See that it is wanted still.

        :raises UnavailableError: it is not.
        """
        if self._given_up() or self._released.exists():
            raise UnavailableError("The host was given back while its inputs were brought to it.", transient=True)

    def have(self, source: str) -> str:
        """Have a source there as it is now; gives the number of its folder, and its name in it."""
        path = Path(source)
        name = path.resolve().name or "root"
        stamp, weight = self._look(path)
        item = self._known.get(source)
        if item is None or item.stamp != stamp or not (self._room(item) / name).exists():
            self._forget(source)
            item = self._made(path, name, stamp, weight)
        self._known.pop(source, None)
        self._known[source] = item  # the last one in the order is the one that was needed last
        return f"{item.number}/{name}"

    def _look(self, source: Path) -> tuple[str, int]:
        """Give what changes when anything in a source does, and how many bytes would be copied; reads no content.

        :raises OSError: it is not there or cannot be looked at.
        """
        digest, weight = hashlib.sha256(), 0
        for name, found in _looks(source, source.stat()):
            self.go_on()
            who = (found.st_uid, found.st_gid, found.st_mode)  # and so, who may read it
            facts = (found.st_dev, found.st_ino, *who, found.st_size, found.st_mtime_ns)
            digest.update(f"{name!a} {facts}\n".encode())
            if stat.S_ISREG(found.st_mode) and not self._can_link(name, found):
                weight += found.st_size
        return digest.hexdigest(), weight

    def _can_link(self, path: str, found: os.stat_result) -> bool:
        if found.st_dev != self._disk or not self._reader.may_read(found):
            return False
        # Linux lets nobody link to a file of somebody else's that he may not write to.
        return os.geteuid() in (0, found.st_uid) or os.access(path, os.R_OK | os.W_OK)

    def _made(self, source: Path, name: str, stamp: str, weight: int) -> Item:
        twin = self._twin(os.fspath(source), stamp)
        if twin is None:
            self._find_space(source, weight)
        item = Item(stamp, self._following, weight)
        self._following += 1
        room = self._room(item)
        room.mkdir(mode=_FOLDER)
        room.chmod(_FOLDER)
        try:
            self._give(source, room / name, None if twin is None else twin / name)
        except BaseException:
            _remove(room)
            raise
        return item

    def _twin(self, source: str, stamp: str) -> Path | None:
        """Find the folder in which another host of the cluster has the same, so that no copy is made twice."""
        for each in sorted(self._record.parent.glob(_RECORD.format("*"))):
            item = _read(each)[0].get(source) if each != self._record else None
            if item is not None and item.stamp == stamp:
                return each.parent / each.stem.removeprefix(_RECORD.partition("{")[0]) / "given" / str(item.number)
        return None

    def _find_space(self, source: Path, weight: int) -> None:
        """See that there is room for copies, if need be for want of others that no job needs now.

        :raises RefusedError: there is not, with how much there is. Once more may help where something went for it.
        """
        went = False
        while weight and weight > (room := self._room_left()):
            idle = [each for each in self._idle() if self._known[each].copied]
            if not idle:
                raise _too_large(source, weight, room, self._rooms, again=went)
            self._forget(idle[0])
            went = True

    def _room_left(self) -> int:
        """Count the bytes that copies may take: a tenth of what is free stays free, for all that jobs write."""
        return shutil.disk_usage(self._rooms).free * 9 // 10

    def _give(self, source: Path, target: Path, twin: Path | None) -> None:
        """Put one thing in place, and what its links lead to; a link to nothing, or to a folder above it, stays one."""
        waiting = [_Step(source, target, twin)]
        made: list[tuple[Path, os.stat_result]] = []
        while waiting:
            self.go_on()
            step = waiting.pop()
            found = step.look()
            if found is None or step.leads_back(found):
                step.target.symlink_to(step.source.readlink())
            elif stat.S_ISDIR(found.st_mode):
                step.target.mkdir(mode=_FOLDER)
                step.target.chmod(_FOLDER)
                made.append((step.target, found))
                inside = sorted(each.name for each in step.source.iterdir())
                waiting += [step.inner(name, found) for name in reversed(inside)]
            elif stat.S_ISREG(found.st_mode):
                self._give_file(step.source, step.target, step.twin, found)
            else:
                raise OSError(errno.EINVAL, "it is neither a file nor a folder", str(step.source))
        for folder, found in reversed(made):  # what is put into a folder changes its time
            os.utime(folder, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _give_file(self, source: Path, target: Path, twin: Path | None, found: os.stat_result) -> None:
        if self._reader.may_read(found) and _linked(source.resolve(), target):
            return
        with suppress(OSError):  # where the other host's is gone, there is still the source
            if twin is not None and _linked(twin, target):
                return
        self._copy(source, target)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        target.chmod(_PROGRAM if found.st_mode & stat.S_IXUSR else _FILE)

    def _copy(self, source: Path, target: Path) -> None:
        with source.open("rb", buffering=0) as old, target.open("xb") as new:
            while piece := old.read(_PIECE):
                new.write(piece)
                self.go_on()

    def prune(self) -> None:
        """Let go what no job needs now: beyond a number of things, and beyond as many bytes of copies as have room."""
        idle = self._idle()
        while len(idle) > KEPT or self._takes_too_much(idle):
            self._forget(idle.pop(0))
        known = {item.number for item in self._known.values()}
        for number in self._numbers():
            if number not in known:
                _remove(self._rooms / str(number))

    def _takes_too_much(self, idle: Sequence[str]) -> bool:
        copied = sum(self._known[each].copied for each in idle)
        return copied > 0 and copied > self._room_left()

    def _idle(self) -> list[str]:
        """Name what the next job does not need, what was not needed for longest first."""
        return [source for source in self._known if source not in self._needed]

    def _forget(self, source: str) -> None:
        item = self._known.pop(source, None)
        if item is not None:
            _remove(self._room(item))

    def _room(self, item: Item) -> Path:
        return self._rooms / str(item.number)

    def _numbers(self) -> list[int]:
        return [int(room.name) for room in self._rooms.iterdir() if room.name.isdecimal()]

    def write_down(self) -> None:
        """Remember what is there, where that is another than before."""
        if self._before == [*self._known.items()]:
            return
        rows = [[source, item.stamp, item.number, item.copied] for source, item in self._known.items()]
        temporary = self._record.with_suffix(".part")
        temporary.write_text(json.dumps({"next": self._following, "items": rows}), encoding="utf-8")
        temporary.replace(self._record)


def _looks(source: Path, found: os.stat_result) -> Iterator[tuple[str, os.stat_result]]:
    yield str(source), found
    if not stat.S_ISDIR(found.st_mode):
        return
    for level in descend(os.fspath(source), follow=True, on_error=unless_loop):
        for entry in [*level.folders, *level.files]:
            yield entry.path, _seen(entry)


def _seen(entry: os.DirEntry[str]) -> os.stat_result:
    """Look at what an entry leads to, at itself where that is nothing."""
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as problem:
        if problem.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def _remove(room: Path) -> None:
    rmtree.clear_away(os.fspath(room))


def record(folder: HostFolder) -> Path:
    """Give the file that says what was given to a host."""
    return folder.path.parent / _RECORD.format(folder.path.name)


def _read(path: Path) -> tuple[dict[str, Item], int]:
    """Read what is there, and the number that comes next; where nothing can be read everything is made anew."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        rows, following = (said["items"], said["next"]) if isinstance(said, dict) else (said, 1)
        items = {str(source): Item(str(stamp), int(number), *map(int, more)) for source, stamp, number, *more in rows}
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
        rule="A host that is a container sees files and folders that are linked or copied into its own folder.",
        cure="Name one that is there and that you may read, and see that the disk has room.",
        transient=problem.errno == errno.ENOSPC,
    )


def _too_large(source: Path, weight: int, room: int, rooms: Path, *, again: bool) -> RefusedError:
    disk = rooms.parents[2]
    return RefusedError(
        f"source: {os.fspath(source)!r} cannot be given to the host: {amount(weight)} of it would be copied, "
        f"and there is room for {amount(room)} on the disk of {os.fspath(disk)!r}.",
        field="source",
        value=os.fspath(source),
        rule="What lies on another disk, or only its owner may read, is copied; a tenth of what is free stays free.",
        cure="Put it on that disk, or the data folder on its own by JUPYTER_SMX_DATA_DIR; name a URL; or free space.",
        transient=again,
    )
