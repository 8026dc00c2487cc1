"""Inputs that a host keeps: each content once, and trees of them that channels of File mode are layers over.

SageMaker gives each job channels that it may write to. Here a channel is an overlay: below it a tree of the store,
which nobody writes to, above it a folder of the job's own, which goes with the job. So a job that changes its inputs
pays for what it changes, the next one gets what was there before, and inputs that are here cost no copy at all.

``contents/<mark>-<mode>`` is one file; ``trees/<key>/data`` has second names of such files, ``trees/<key>/bytes`` says
how much they are; ``layers/<n>`` has what one job wrote over one channel; ``trash`` is what an idle host deletes;
``shown`` are the places where jobs see what their links of FastFile lead to. The mark is the SHA-256 of the content,
or, where there is too much to read, a hash of what tells the source.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Set, Tuple

from jupyter_smx.agent import digest

if TYPE_CHECKING:
    from jupyter_smx.agent.listing import Item, Listing

_FICLONE = 0x40049409
_PIECE = 1 << 20
_PARTS = ("contents", "trees", "layers", "trash", "shown")
HASHED = 20_000
"""Files of a channel whose contents are read at most; more are known by what tells their sources."""


def clone(source: str, target: str) -> bool:
    """Make ``target`` share the blocks of ``source`` until one of them is written to; False where that is not known."""
    with open(source, "rb") as file, open(target, "wb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
        except OSError:
            return False
    return True


def _copy_and_hash(source: str, target: str) -> str:
    content = hashlib.sha256()
    with open(source, "rb", buffering=0) as file, open(target, "xb", buffering=0) as copy:
        for piece in iter(lambda: file.read(_PIECE), b""):
            content.update(piece)
            copy.write(piece)
    return content.hexdigest()


class Store:
    """The store of one host, as one errand or an idle moment uses it."""

    def __init__(self, root: str, known: digest.Known, limit: int) -> None:
        self.root = root
        self.known = known
        self.limit = limit
        self.fresh: digest.Known = {}
        self.copied: List[str] = []
        self._contents: Set[str] = set()

    def path(self, *names: str) -> str:
        """Give the path of something in the store."""
        return os.path.join(self.root, *names)

    def make(self) -> None:
        """Make the folders of the store where they are missing."""
        for name in _PARTS:
            os.makedirs(self.path(name), mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def held(self, *, wait: bool = True) -> Iterator[bool]:
        """Have the store for oneself; False when somebody else has it and one does not wait."""
        self.make()
        with open(self.path("lock"), "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError:
                yield False
                return
            yield True

    # Taking in

    def is_hashed(self, listing: Listing) -> bool:
        """Say whether the contents of a channel are read, so that equal ones are kept once wherever they come from."""
        return listing.size <= self.limit and len(listing.items) <= HASHED

    def take(self, listing: Listing) -> Tuple[str, List[digest.Row]]:
        """Take in what is not here yet; gives the key of the tree, and its rows by which its content is known.

        :raises OSError: a source cannot be read, or the disk is full.
        """
        with os.scandir(self.path("contents")) as entries:
            self._contents = {entry.name for entry in entries}
        hashed = self.is_hashed(listing)
        marks = {item.name: mark for item in listing.items for mark in [self._kept(item, hashed=hashed)] if mark}
        rows = [(item.name, item.file.size, marks[item.name]) for item in listing.items if item.name in marks]
        lacking = [item for item in listing.items if item.name not in marks]
        brought = digest.together(self._by_content if hashed else self._by_source, lacking, listing.size)
        marks.update((name, mark) for name, _size, mark in brought)
        names = [(item.name, f"{marks[item.name]}-{item.mode:o}") for item in listing.items]
        return self._tree(sorted(names), sorted(listing.folders), listing.size), rows + brought if hashed else []

    def _kept(self, item: Item, *, hashed: bool) -> str:
        """Give the mark of a file that did not change and is here, '' otherwise; nothing is read for it."""
        if not hashed:
            mark = _mark_of_source(item) if item.file.settled else ""
        else:
            before = self.known.get(item.file.path)
            mark = str(before[3]) if before is not None and before[:3] == item.same else ""
        return mark if mark and f"{mark}-{item.mode:o}" in self._contents else ""

    def _by_content(self, item: Item) -> digest.Row:
        mark = self._mark_of(item)
        if not mark:
            part = self._part()
            mark = _copy_and_hash(item.file.path, part)
            self.copied.append(item.name)
            self._settle(part, item, mark)
            if item.file.settled and self._is_same(item):
                self.fresh[item.file.path] = [*item.same, mark]
        return item.name, os.stat(self.path("contents", f"{mark}-{item.mode:o}")).st_size, mark

    def _mark_of(self, item: Item) -> str:
        """Give the content of a file that was only touched, so that it is here all the same; '' if it is not."""
        before = self.known.get(item.file.path)
        if before is None or f"{before[3]}-{item.mode:o}" not in self._contents:
            return ""
        mark = str(before[3])
        if before[0] != item.file.size or digest.of_path(item.file.path) != mark:
            return ""
        if item.file.settled and self._is_same(item):
            self.fresh[item.file.path] = [*item.same, mark]
        return mark

    def _by_source(self, item: Item) -> digest.Row:
        part = self._part()
        if not clone(item.file.path, part):
            shutil.copyfile(item.file.path, part)
        self.copied.append(item.name)
        # What may have changed meanwhile is never taken for what it was.
        known = item.file.settled and self._is_same(item)
        mark = _mark_of_source(item) if known else "s" + os.urandom(32).hex()
        self._settle(part, item, mark)
        return item.name, item.file.size, mark

    def take_objects(
        self, listing: Listing, bring: Callable[[List[Tuple[Item, str]]], List[str]]
    ) -> Tuple[str, List[digest.Row]]:
        """Take in objects; ``bring`` brings those that are not here into files, and gives the SHA-256 of each.

        :raises OSError: the disk is full.
        """
        with os.scandir(self.path("contents")) as entries:
            self._contents = {entry.name for entry in entries}
        marks: Dict[str, str] = {}
        lacking: List[Tuple[Item, str]] = []
        for item in listing.items:
            before = self.known.get(item.file.path)
            if before is not None and before[:3] == item.same and f"{before[3]}-{item.mode:o}" in self._contents:
                marks[item.name] = str(before[3])
            else:
                lacking.append((item, self._part()))
        brought = bring(lacking) if lacking else []
        for (item, part), mark in zip(lacking, brought):  # noqa: B905 - strict is of Python 3.10
            marks[item.name] = mark
            if item.file.settled:
                self.fresh[item.file.path] = [*item.same, mark]
            self._settle(part, item, mark)
            self.copied.append(item.name)
        names = [(item.name, f"{marks[item.name]}-{item.mode:o}") for item in listing.items]
        rows = [(item.name, item.file.size, marks[item.name]) for item in listing.items]
        return self._tree(sorted(names), [], listing.size), rows

    def _part(self) -> str:
        return self.path("contents", f"part-{os.urandom(8).hex()}")

    def _is_same(self, item: Item) -> bool:
        found = os.stat(item.file.path)
        return item.same == [found.st_size, found.st_mtime_ns, [found.st_dev, found.st_ino, found.st_ctime_ns]]

    def _settle(self, part: str, item: Item, mark: str) -> None:
        name = f"{mark}-{item.mode:o}"
        if name in self._contents:
            os.unlink(part)
            return
        os.chmod(part, item.mode)
        if item.file.mtime_ns:
            os.utime(part, ns=(item.file.mtime_ns, item.file.mtime_ns))
        os.replace(part, self.path("contents", name))
        self._contents.add(name)

    def _tree(self, names: List[Tuple[str, str]], folders: List[str], size: int) -> str:
        told = "\n".join([*(f"{name}\0{content}" for name, content in names), *(f"{name}\0/" for name in folders)])
        key = hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()
        tree = self.path("trees", key)
        if not os.path.isdir(tree):
            part = self.path("layers", f"part-{os.urandom(8).hex()}")
            os.makedirs(os.path.join(part, "data"))
            made: Set[str] = set()
            for name in folders:
                _make(os.path.join(part, "data", name), made)
            for name, content in names:
                _make(os.path.join(part, "data", os.path.dirname(name)), made)
                os.link(self.path("contents", content), os.path.join(part, "data", name))
            with open(os.path.join(part, "bytes"), "w", encoding="ascii") as file:
                file.write(str(size))
            os.rename(part, tree)
        os.utime(tree)  # the last one used is kept longest
        return key

    def layer(self, key: str, target: str) -> Dict[str, str]:
        """Make the folders of a fresh layer over a tree; gives the wish for its mount at ``target``."""
        top = os.path.join("layers", os.urandom(8).hex())
        for name in ("upper", "work"):
            os.makedirs(self.path(top, name))
        os.chmod(self.path(top, "upper"), 0o755)  # noqa: S103 - it shows through as the channel's folder
        lower = os.path.join("trees", key, "data")
        upper, work = os.path.join(top, "upper"), os.path.join(top, "work")
        return {"how": "layer", "lower": lower, "upper": upper, "work": work, "target": target}

    # Tidying up

    def drop_layers(self) -> None:
        """Move away what jobs wrote over their channels; no job runs."""
        self.make()
        for name in _names(self.path("layers")):
            os.rename(self.path("layers", name), self.path("trash", name))

    def prune(self, room: Optional[Callable[[], int]] = None) -> None:
        """Forget the trees that were not used for longest, until what is kept is half of the room that there would be.

        What is in the trash afterwards, and the contents that no tree has, is deleted by :meth:`empty`.
        """
        trees = sorted(_aged(self.path("trees")), reverse=True)
        kept = sum(size for _used, _name, size in trees)
        bound = ((room or self._free)() + kept) // 2
        total = 0
        for _used, name, size in trees:
            total += size
            if total > bound:
                # The same content may be put there again before the trash was emptied.
                os.rename(self.path("trees", name), self.path("trash", f"{name}-{os.urandom(8).hex()}"))

    def forget_all_but(self, keys: Set[str]) -> None:
        """Make all the room that there is; ``keys`` are trees that this job has already."""
        for name in set(_names(self.path("trees"))) - keys:
            shutil.rmtree(self.path("trees", name))
        for name in _names(self.path("contents")):
            os.unlink(self.path("contents", name))

    def _free(self) -> int:
        room = os.statvfs(self.root)
        return room.f_bavail * room.f_frsize

    def needs_emptying(self) -> bool:
        """Say whether there is anything to delete."""
        return bool(_names(self.path("trash")))

    def empty(self, remove: Callable[[str], None]) -> None:
        """Delete what is in the trash, and the contents that are in no tree any more."""
        for name in _names(self.path("trash")):
            with contextlib.suppress(OSError):
                remove(self.path("trash", name))
        with self.held(wait=False) as mine:
            if not mine:
                return  # a job takes inputs in now; there will be another idle moment
            with os.scandir(self.path("contents")) as entries:
                for entry in entries:
                    if entry.stat(follow_symlinks=False).st_nlink == 1:
                        os.unlink(entry.path)


def _mark_of_source(item: Item) -> str:
    said = f"{item.file.path}\0{item.same}"
    return "s" + hashlib.sha256(said.encode(errors="surrogateescape")).hexdigest()


def _make(path: str, made: Set[str]) -> None:
    if path not in made:
        os.makedirs(path, exist_ok=True)
        made.add(path)


def _names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _aged(folder: str) -> Iterator[Tuple[int, str, int]]:
    for name in _names(folder):
        with open(os.path.join(folder, name, "bytes"), encoding="ascii") as file:
            yield os.stat(os.path.join(folder, name)).st_mtime_ns, name, int(file.read())
