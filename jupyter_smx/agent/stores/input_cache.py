"""Cache inputs on a host: each content once, and trees that channels of File mode are overlays of.

SageMaker gives each job channels that it may write to. Here a channel is an overlay: below it a read-only tree of the
store, above it a folder of the job's own, which is deleted with the job. So a job that changes its inputs pays for its
changes, the next one gets the original inputs, and cached inputs cost no copy at all.

``contents/<mark>-<mode>`` is one file; ``trees/<key>/data`` has hard links to such files, and copies of equal ones;
``trees/<key>/bytes`` has their size, and is missing if a tree is incomplete; ``parts`` has incomplete files;
``layers/<n>`` has the writes of one job over one channel; ``trash`` is deleted by an idle host; ``shown`` has the
places where jobs see the targets of FastFile links. The mark is the SHA-256 of the content. If there is too much to
read or to remember, it is a hash of what identifies the source.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Set, Tuple

from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.files.rmtree import remove, remove_if_possible
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.stores.listing import ChannelListing, Item

    FetchCallback = Callable[[List[Tuple[Item, str]]], List[Tuple[str, bool]]]
    """Downloads objects into files; returns for each the SHA-256, and True if that belongs to the object's tag."""

_FICLONE = 0x40049409
_PIECE = 1 << 20
_OF_SOURCE = "s"
_PROVIDED_FILES = ("provided", "files")
"""Folder of the files that controllers sent, by their SHA-256; :mod:`jupyter_smx.agent.host.provided_files`."""
_NO_LINK = (errno.ENOENT, errno.EXDEV, errno.EPERM)
"""Errors of a link to a provided file: it was deleted since, or this file system has no such links."""
_FOLDERS = ("contents", "trees", "layers", "trash", "shown", "parts")


class CacheEntry(NamedTuple):
    """A cached input: the key of its tree, its rows, and whether these identify its content or only its sources."""

    key: str
    rows: List[digest.DigestRow]
    method: str


def clone(source: str, target: str) -> bool:
    """Make ``target`` share the blocks of ``source`` until one is written to; False if the system cannot do that."""
    with open(source, "rb") as file, open(target, "wb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
        except OSError:
            return False
    return True


def copy_file(source: str, target: str) -> None:
    """Copy a file with its mode and times.

    :raises OSError: it cannot be read, or the disk is full.
    """
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    if not os.path.isfile(source) or not clone(source, target):
        shutil.copyfile(source, target)
    shutil.copystat(source, target)


def _try_link(source: str, target: str) -> bool:
    """Create a hard link to a file; return False if the file has as many links as the file system allows."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        return False
    return True


def _copy_and_hash(source: str, target: str) -> str:
    import hashlib  # noqa: PLC0415 - loaded already, see `startup.AFTER_START`

    content = hashlib.sha256()
    with open(source, "rb", buffering=0) as file, open(target, "xb", buffering=0) as copy:
        for piece in iter(lambda: file.read(_PIECE), b""):
            content.update(piece)
            copy.write(piece)
    return content.hexdigest()


class InputCache:
    """The store of one host, as one forked task or an idle moment uses it."""

    def __init__(self, root: str, known: digest.DigestCache, limit: int, most: int = digest.MAX_REMEMBERED) -> None:
        """Use the store in ``root``; files beyond ``most`` are identified by their sources only."""
        self.root = root
        self.digest_cache = known
        self.limit = limit
        self.max_hashed_files = most
        self.fresh: digest.DigestCache = {}
        self.copied: List[str] = []
        self._contents: Set[str] = set()
        self._provided: Dict[Tuple[object, ...], str] = {}

    def path(self, *names: str) -> str:
        """Return the path of a part of the store."""
        return os.path.join(self.root, *names)

    def make(self) -> None:
        """Make the folders of the store where they are missing."""
        for name in _FOLDERS:
            os.makedirs(self.path(name), mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def lock(self, *, wait: bool = True) -> Iterator[bool]:
        """Lock the store exclusively; return False if another process has it and the call must not wait."""
        self.make()
        with open(self.path("lock"), "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError:
                yield False
                return
            yield True

    # Taking in

    def is_hashed(self, listing: ChannelListing) -> bool:
        """Return True if contents of a channel are read, so that equal ones are stored once, whatever their source."""
        return listing.size <= self.limit and len(listing.items) <= self.max_hashed_files

    def _load_contents(self) -> None:
        with os.scandir(self.path("contents")) as entries:
            self._contents = {entry.name for entry in entries}

    def _load_provided(self) -> None:
        self._provided = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path(*_PROVIDED_FILES)) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another controller's request may delete one now
                    facts = entry.stat(follow_symlinks=False)
                    self._provided[facts.st_dev, facts.st_ino] = entry.name

    def add_files(self, listing: ChannelListing) -> CacheEntry:
        """Take in what is not here yet.

        :raises OSError: a source cannot be read, or the disk is full.
        """
        self._load_contents()
        self._load_provided()
        hashed = self.is_hashed(listing)
        marks: Dict[str, str] = {}
        for item in listing.items:
            mark = self._link_provided(item, hashed=hashed) or self._cached_mark(item, hashed=hashed)
            if mark:
                marks[item.name] = mark
        rows = [(item.name, item.file.size, marks[item.name]) for item in listing.items if item.name in marks]
        lacking = [item for item in listing.items if item.name not in marks]
        brought = digest.map_parallel(self._by_content if hashed else self._by_source, lacking, listing.size)
        marks.update((name, mark) for name, _size, mark in brought)
        key = self._tree(listing, marks)
        if hashed:
            return CacheEntry(key, rows + brought, "content")
        return CacheEntry(
            key, [(item.name, item.file.size, str(item.file.mtime_ns)) for item in listing.items], "listing"
        )

    def _cached_mark(self, item: Item, *, hashed: bool) -> str:
        """Return the mark of an unchanged file whose content is stored here, '' otherwise; reads no content."""
        if not hashed:
            mark = _mark_of_source(item) if item.file.settled else ""
        else:
            before = self.digest_cache.get(item.file.path)
            mark = str(before[3]) if before is not None and before[:3] == item.fingerprint else ""
        return mark if mark and f"{mark}-{item.mode:o}" in self._contents else ""

    def _link_provided(self, item: Item, *, hashed: bool) -> str:
        """Take in a file that a controller sent, without a copy; return its mark, '' for any other file.

        No job of an ordinary account can write to it. The mark is its SHA-256, which was checked when it came.
        """
        name = self._provided.get(tuple(item.file.identity[:2]))
        if name is None:
            return ""
        mark = name if hashed else _OF_SOURCE + name
        if f"{mark}-{item.mode:o}" not in self._contents:
            part = self._part()
            # By its name here: the item may be seen through another mount, to which no link leads.
            try:
                is_linked = _try_link(self.path(*_PROVIDED_FILES, name), part)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                is_linked = False
            if not is_linked:
                return ""  # the name of the item has the bytes
            self._commit(part, item, mark)
        return mark

    def _by_content(self, item: Item) -> digest.DigestRow:
        mark = self._rehash_mark(item)
        if not mark:
            part = self._part()
            mark = _copy_and_hash(item.file.path, part)
            self.copied.append(item.name)
            self._commit(part, item, mark)
            if item.file.settled and self._is_same(item):
                self.fresh[item.file.path] = [*item.fingerprint, mark]
        return item.name, os.stat(self.path("contents", f"{mark}-{item.mode:o}")).st_size, mark

    def _rehash_mark(self, item: Item) -> str:
        """Return the mark of a file with a new time but the stored content, '' if the content is another one."""
        before = self.digest_cache.get(item.file.path)
        if before is None or f"{before[3]}-{item.mode:o}" not in self._contents:
            return ""
        mark = str(before[3])
        if before[0] != item.file.size or digest.hash_path(item.file.path) != mark:
            return ""
        if item.file.settled and self._is_same(item):
            self.fresh[item.file.path] = [*item.fingerprint, mark]
        return mark

    def _by_source(self, item: Item) -> digest.DigestRow:
        import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

        part = self._part()
        if not clone(item.file.path, part):
            shutil.copyfile(item.file.path, part)
        self.copied.append(item.name)
        # What may have changed meanwhile is never taken for what it was.
        known = item.file.settled and self._is_same(item)
        mark = _mark_of_source(item) if known else _OF_SOURCE + os.urandom(32).hex()
        self._commit(part, item, mark)
        return item.name, item.file.size, mark

    def add_objects(self, listing: ChannelListing, bring: FetchCallback) -> CacheEntry:
        """Take in objects; ``bring`` brings those that are not here.

        :raises OSError: the disk is full.
        """
        self._load_contents()
        hashed = len(listing.items) <= self.max_hashed_files
        marks = {item.name: self._cached_mark(item, hashed=hashed) for item in listing.items}
        lacking = [(item, self._part()) for item in listing.items if not marks[item.name]]
        brought = bring(lacking) if lacking else []
        for (item, part), (content, sure) in zip(lacking, brought):
            marks[item.name] = content
            if sure and item.file.settled:
                if hashed:
                    self.fresh[item.file.path] = [*item.fingerprint, content]
                else:
                    marks[item.name] = _mark_of_source(item)
            self._commit(part, item, marks[item.name])
            self.copied.append(item.name)
        sizes = {item.name: os.stat(self._content(item, marks)).st_size for item in listing.items}
        told = [item._replace(file=item.file._replace(size=sizes[item.name])) for item in listing.items]
        key = self._tree(listing._replace(items=told), marks)
        # A file that is identified by its source has a mark with an s before it; its tag is the same in all stores.
        rows = [(one.name, one.file.size, marks[one.name]) for one in told]
        if hashed:
            return CacheEntry(key, rows, "content")
        tags = {item.name: str(item.file.identity[0]) for item in listing.items}
        rows = [(name, size, tags[name] if mark.startswith(_OF_SOURCE) else mark) for name, size, mark in rows]
        return CacheEntry(key, rows, "listing")

    def _content(self, item: Item, marks: Dict[str, str]) -> str:
        return self.path("contents", f"{marks[item.name]}-{item.mode:o}")

    def _part(self) -> str:
        return self.path("parts", os.urandom(8).hex())

    def _is_same(self, item: Item) -> bool:
        found = os.stat(item.file.path)
        return item.fingerprint == [found.st_size, found.st_mtime_ns, [found.st_dev, found.st_ino, found.st_ctime_ns]]

    def _commit(self, part: str, item: Item, mark: str) -> None:
        name = f"{mark}-{item.mode:o}"
        if name in self._contents:
            os.unlink(part)
            return
        os.chmod(part, item.mode)
        if item.file.mtime_ns:
            os.utime(part, ns=(item.file.mtime_ns, item.file.mtime_ns))
        os.replace(part, self.path("contents", name))
        self._contents.add(name)

    def _tree(self, listing: ChannelListing, marks: Dict[str, str]) -> str:
        names = sorted((item.name, f"{marks[item.name]}-{item.mode:o}") for item in listing.items)
        folders = sorted(listing.folders)
        told = "\n".join([*(f"{name}\0{content}" for name, content in names), *(f"{name}\0/" for name in folders)])
        key = _digest(told)
        tree = self.path("trees", key)
        if _size(tree) is None:
            part = self._part()
            os.makedirs(os.path.join(part, "data"))
            made: Set[str] = set()
            linked: Set[str] = set()
            for name in folders:
                _make(os.path.join(part, "data", name), made)
            for name, content in names:
                _make(os.path.join(part, "data", os.path.dirname(name)), made)
                # Equal files are files of their own: a job that changes one, or copies links as links, changes one.
                source, target = self.path("contents", content), os.path.join(part, "data", name)
                if content in linked or not _try_link(source, target):
                    copy_file(source, target)
                linked.add(content)
            with open(os.path.join(part, "bytes"), "w", encoding="ascii") as file:
                file.write(str(listing.size))
            if os.path.lexists(tree):
                remove(self._retire(key))
            os.rename(part, tree)
        os.utime(tree)  # the last one used is kept longest
        return key

    def layer(self, key: str, target: str) -> Dict[str, str]:
        """Create the folders of a new layer over a tree; return the request for its mount at ``target``."""
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
        """Retire the trees that were not used for longest, until the rest takes at most half of the available space.

        The trash, and contents without a tree, are deleted later by :meth:`empty_trash`.
        """
        trees = sorted(_trees_by_age(self.path("trees")), reverse=True)
        kept = sum(size or 0 for _used, _name, size in trees)
        bound = ((room or self._free)() + kept) // 2
        total = 0
        for _used, name, size in trees:
            total += size or 0
            if total > bound or size is None:
                self._retire(name)

    def evict_all_except(self, keys: Set[str]) -> None:
        """Make all the room that there is; ``keys`` are trees that this job has already."""
        for folder in ("trash", "parts"):  # what is thrown away has names of contents as well
            host_cleanup.clear_folder(self.path(folder))
        for name in set(_names(self.path("trees"))) - keys:
            remove_if_possible(self._retire(name))
        for name in _names(self.path("contents")):
            os.unlink(self.path("contents", name))

    def _retire(self, key: str) -> str:
        """Move a tree away in one step, before any of it is deleted; return the path of the rest.

        The deleting process may be killed, and half a tree would become the whole channel of the next job.
        """
        tree = self.path("trees", key)
        # The same content may be put there again before the trash was emptied.
        away = self.path("trash", f"{key}-{os.urandom(8).hex()}")
        try:
            os.rename(tree, away)
        except OSError:  # a full disk may have no room for a name either; without this file it is no tree
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(tree, "bytes"))
            return tree
        return away

    def _free(self) -> int:
        room = os.statvfs(self.root)
        return room.f_bavail * room.f_frsize

    def has_trash(self) -> bool:
        """Return True if there is anything to delete."""
        return any(_names(self.path(folder)) for folder in ("trash", "parts"))

    def empty_trash(self) -> None:
        """Delete what is in the trash or never became whole, and the contents that are in no tree any more."""
        host_cleanup.clear_folder(self.path("trash"))
        with self.lock(wait=False) as mine:
            if not mine:
                return  # a job adds inputs now; the next idle moment will do
            host_cleanup.clear_folder(self.path("parts"))
            with os.scandir(self.path("contents")) as entries:
                for entry in entries:
                    if entry.stat(follow_symlinks=False).st_nlink == 1:
                        os.unlink(entry.path)


def _mark_of_source(item: Item) -> str:
    said = f"{item.file.path}\0{item.fingerprint}"
    return _OF_SOURCE + _digest(said)


def _digest(text: str) -> str:
    import hashlib  # noqa: PLC0415 - loaded already, see `startup.AFTER_START`

    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _make(path: str, made: Set[str]) -> None:
    if path not in made:
        os.makedirs(path, exist_ok=True)
        made.add(path)


def _names(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _size(tree: str) -> Optional[int]:
    """Return the bytes of a tree, None if it is missing or incomplete."""
    try:
        with open(os.path.join(tree, "bytes"), encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def _trees_by_age(folder: str) -> Iterator[Tuple[int, str, Optional[int]]]:
    for name in _names(folder):
        with contextlib.suppress(FileNotFoundError):  # a task that was killed for a stop may still be at its last step
            yield os.stat(os.path.join(folder, name)).st_mtime_ns, name, _size(os.path.join(folder, name))
