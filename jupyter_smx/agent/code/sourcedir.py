"""Unpack the user's source folder once per content, and copy it for each job.

A copy, because a job may write beside its code; its changes are deleted with the job. While the host is idle it makes
the next copy of the code that was used last, so that the next job needs only one rename.

``code/<sha256>/tree`` is the unpacked tree, ``code/<sha256>/ready`` the spare copy. ``code/<sha256>/lock`` is held
while that copy is made: a job that comes meanwhile waits for it, because another copy would take longer. A processing
job finds the archive beside its code, so ``code/<sha256>/ready.tar.gz`` is the next copy of that; ``archive.txt`` has
the path to copy from. The next copy gets the files that the last job left unchanged, by ``ready.json`` and
``taken.json`` (:mod:`~jupyter_smx.agent.code.reuse_files`): to copy and to delete 20,000 files takes seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from typing import TYPE_CHECKING, AbstractSet, Any, Dict, Iterator, List, Optional, Set

from jupyter_smx.agent.code import imports, reuse_files
from jupyter_smx.agent.code.installs import sent_files
from jupyter_smx.agent.contract import script
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.files import host_layout

if TYPE_CHECKING:
    import tarfile

    from jupyter_smx.agent.frames import SourceDirSpec

_PIECE = 1 << 20
_TREE, _READY, _LOCK = "tree", "ready", "lock"
_READY_ARCHIVE, _ARCHIVE_SOURCE = "ready.tar.gz", "archive.txt"
_READY_INDEX, _TAKEN_INDEX = "ready.json", "taken.json"
_MAX_TREES = 2
"""Trees that an idle host keeps: two notebooks may take turns on one pool."""
_INLINE_FILES = 200
_INLINE_BYTES = 4_000_000
"""Up to here the job's own process puts the code in place: asking another one would take longer."""
_SUFFIXES = (".py", ".so", ".pyd")


class SourceDirError(RefusalError):
    """The code cannot be put in place."""


def is_small(source: SourceDirSpec) -> bool:
    """Return True if the job's process may copy the code itself."""
    return int(source["files"]) <= _INLINE_FILES and int(source["size"]) <= _INLINE_BYTES


def is_slow_copy(source: Optional[SourceDirSpec], trees: str) -> bool:
    """Return True if the code is copied by a process of its own: it is large, and no spare copy exists."""
    return source is not None and not is_small(source) and not has_spare_copy(source, trees)


def home_of(source: SourceDirSpec, trees: str) -> str:
    """Return the folder of a content: its tree, its spare copy, and the record of files that install packages."""
    return os.path.join(trees, source["sha256"])


def copy_tree(source: SourceDirSpec, trees: str, target: str) -> Dict[str, Any]:
    """Put a copy of the folder at ``target``, which is empty or missing; ``trees`` is the host's folder of contents.

    Both are paths in the host's folder: a path through ``/opt/ml`` is on another mount, where a rename fails.

    :raises SourceDirError: the archive is missing or is not the one that was packed.
    :raises OSError: the disk is full.
    """
    home = home_of(source, trees)
    if not os.path.isdir(os.path.join(home, _TREE)):
        _unpack(source, os.path.join(home, _TREE))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not _take_spare_copy(home, target):
        with _spare_copy_lock(home):
            is_taken = _take_spare_copy(home, target)
        if not is_taken:
            os.makedirs(target, exist_ok=True)
            _copy(os.path.join(home, _TREE), target)
    os.utime(home)  # the last one used is kept longest
    return {}


def _take_spare_copy(home: str, target: str) -> bool:
    """Rename the copy that waits; False if there is none, or if something lies at ``target``."""
    try:
        os.rename(os.path.join(home, _READY), target)
    except OSError:
        return False
    with contextlib.suppress(OSError):  # then the next copy is a whole one
        os.rename(os.path.join(home, _READY_INDEX), os.path.join(home, _TAKEN_INDEX))
    return True


@contextlib.contextmanager
def _spare_copy_lock(home: str) -> Iterator[None]:
    """Hold the lock for the spare copy; if the file system has no locks, proceed without."""
    descriptor = os.open(os.path.join(home, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_archive(source: SourceDirSpec, home: str, folder: str) -> None:
    """Put the packed folder beside its unpacked content, as a FrameworkProcessor leaves it there.

    A copy, because the job may write to it. ``home`` is the folder of this content, with the spare copy, if any.

    :raises OSError: the disk is full.
    """
    path = os.path.join(folder, script.ARCHIVE)
    # The user's own file of that name stays. The archive may be deleted already if the host has its content.
    if os.path.lexists(path):
        return
    try:
        os.rename(os.path.join(home, _READY_ARCHIVE), path)
    except OSError:  # none waits, or ``folder`` is another mount
        with contextlib.suppress(FileNotFoundError):
            _copy_file(source["path"], path)
    with contextlib.suppress(OSError), open(os.path.join(home, _ARCHIVE_SOURCE), "wb") as file:
        file.write(os.fsencode(source["path"]))


def has_spare_copy(source: SourceDirSpec, trees: str) -> bool:
    """Return True if a spare copy exists."""
    return os.path.isdir(os.path.join(home_of(source, trees), _READY))


def _trees_by_use(trees: str) -> List[str]:
    """Return the folders of all contents, the last one used first."""
    try:
        found = sorted(((entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(trees)), reverse=True)
    except OSError:
        return []
    return [path for _used, path in found]


def is_spare_missing(trees: str) -> bool:
    """Return True if the content that was used last has no spare copy."""
    return any(
        not os.path.isdir(os.path.join(home, _READY)) or _needs_archive(home) for home in _trees_by_use(trees)[:1]
    )


def _needs_archive(home: str) -> bool:
    missing = not os.path.exists(os.path.join(home, _READY_ARCHIVE))
    return missing and os.path.exists(os.path.join(home, _ARCHIVE_SOURCE))


def make_spare_copy(trees: str) -> None:
    """Make the next copy of the content that was used last.

    :raises OSError: disk full; the next job makes its own.
    """
    for home in _trees_by_use(trees)[:1]:
        with _spare_copy_lock(home):
            if not os.path.isdir(os.path.join(home, _READY)):
                _make_spare_tree(home, os.path.join(os.path.dirname(trees), host_layout.TRASH))
            if _needs_archive(home):
                _make_spare_archive(home)


def _make_spare_tree(home: str, trash: str) -> None:
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    part = os.path.join(home, _READY + ".part")
    shutil.rmtree(part, ignore_errors=True)
    os.mkdir(part)
    reuse_files.move_unchanged(os.path.join(home, _TAKEN_INDEX), trash, part)
    _copy(os.path.join(home, _TREE), part, keep=True)
    reuse_files.write_index(part, os.path.join(home, _READY_INDEX))
    os.rename(part, os.path.join(home, _READY))


def _make_spare_archive(home: str) -> None:
    asked, part = os.path.join(home, _ARCHIVE_SOURCE), os.path.join(home, _READY_ARCHIVE + ".part")
    with open(asked, "rb") as file:
        path = os.fsdecode(file.read())
    try:
        _copy_file(path, part)
    except FileNotFoundError:  # it is not kept as long as the host is
        os.unlink(asked)
        return
    os.rename(part, os.path.join(home, _READY_ARCHIVE))


def _unpack(source: SourceDirSpec, tree: str) -> None:
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`
    import tarfile  # noqa: PLC0415 - see agent/forkserver/job_modules

    part = tree + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part, mode=0o700)
    try:
        with open(source["path"], "rb") as file:
            _check(file, source)
            with tarfile.open(fileobj=file, mode="r:gz") as archive:
                for member in archive:
                    _extract(archive, member, part)
    except (tarfile.TarError, EOFError) as error:
        raise SourceDirError(f"source_dir: {source['path']} cannot be unpacked ({error}).") from error
    except FileNotFoundError as error:
        raise SourceDirError(f"source_dir: {source['path']} cannot be read on this host ({error.strerror}).") from error
    sent_files.record(part, os.path.dirname(tree))
    os.rename(part, tree)


def _check(file: Any, source: SourceDirSpec) -> None:
    if digest.hash_file(file) != source["sha256"]:
        raise SourceDirError(
            f"source_dir: {source['path']} is not the archive that was packed; its SHA-256 differs. Run the cell again."
        )
    file.seek(0)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, part: str) -> None:
    """Write one member; nothing but files and folders that lie inside."""
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    names = member.name.split("/")
    if member.name.startswith("/") or ".." in names or not (member.isfile() or member.isdir()):
        raise SourceDirError(f"source_dir: {member.name!r} in the archive is not a file or folder inside it.")
    path = os.path.join(part, *names)
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    content = archive.extractfile(member)
    with open(path, "xb") as file:
        shutil.copyfileobj(content, file, _PIECE)  # type: ignore[arg-type]  # a file has content
    # Read-only, so that no job changes by accident what later jobs get.
    os.chmod(path, 0o555 if member.mode & 0o100 else 0o444)


def _copy(tree: str, target: str, *, keep: bool = False) -> None:
    """Copy a tree of files; with ``keep`` those stay that lie at ``target`` already."""
    present = frozenset(os.listdir(target)) if keep else frozenset()
    with os.scandir(tree) as entries:
        for entry in entries:
            path = os.path.join(target, entry.name)
            if entry.is_dir(follow_symlinks=False):
                os.makedirs(path, exist_ok=True)
                _copy(entry.path, path, keep=keep)
            elif entry.name not in present:
                _copy_file(entry.path, path)


def _copy_file(source: str, target: str) -> None:
    """Copy a file and keep whether it is a program; of many small files :mod:`shutil` would take twice as long."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(reading)
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _copy_content(reading, writing, found.st_size)
            if found.st_mode & 0o100:
                os.fchmod(writing, 0o755)
        except OSError as error:
            error.filename = target  # the system names no file for a descriptor
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_content(reading: int, writing: int, size: int) -> None:
    """Copy all bytes between two descriptors; in the kernel where it can, which shares blocks on some disks."""
    left = size
    if left > _PIECE and hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):  # this disk or this kernel cannot, and the loop below can, or says why not
            while left:
                copied = os.copy_file_range(reading, writing, left)
                if not copied:
                    break
                left -= copied
    while left:
        data = memoryview(os.read(reading, min(left, _PIECE)))
        if not data:
            return
        left -= len(data)
        while data:
            data = data[os.write(writing, data) :]


def trim(trees: str, trash: str) -> None:
    """Move the trees that were not used for longest to the trash."""
    for home in _trees_by_use(trees)[_MAX_TREES:]:
        # The same content may be put there again before the trash was emptied.
        away = os.path.join(trash, f"{os.path.basename(home)}-{os.urandom(8).hex()}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(home, away)


def top_level_modules(folder: str) -> List[str]:
    """Name the modules and packages in a folder that Python would import before any others."""
    return list(dict.fromkeys(name for entry in _entries(folder) for name in _module(entry)))


def namespace_packages(folder: str) -> List[str]:
    """Name the folders in a folder that may be parts of a namespace, in which packages of several owners lie."""
    return [entry.name for entry in _entries(folder) if entry.is_dir() and not _is_package(entry)]


def _entries(folder: str) -> List["os.DirEntry[str]"]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []


def _module(entry: "os.DirEntry[str]") -> Iterator[str]:
    # A folder without __init__.py has lower precedence than a package of its name anywhere else.
    if entry.name.endswith(_SUFFIXES) or _is_package(entry):
        yield entry.name.split(".", 1)[0]


def _is_package(entry: "os.DirEntry[str]") -> bool:
    return os.path.isfile(os.path.join(entry.path, "__init__.py"))


def unload_shadowing_modules(folders: List[str], keep: AbstractSet[str] = frozenset()) -> Set[str]:
    """Make imports use modules in ``folders``, even if the host has imported others with the same names.

    Python's own modules stay, as they would where Python had loaded them before the script began. So do those of
    ``keep``; return the names of these that lie in ``folders`` and come from elsewhere.
    """
    ours = {name for folder in folders for name in top_level_modules(folder)}
    ours -= imports.STDLIB | {"__main__"}
    kept = ours & keep
    imports.unload(ours - kept)
    # The folders may have been filled within the clock tick of Python's last look. Other entries stay, because
    # importlib.invalidate_caches() takes milliseconds.
    for path in [path for path in sys.path_importer_cache if path.startswith(tuple(folders))]:
        del sys.path_importer_cache[path]
    specs = {name: getattr(sys.modules.get(name), "__spec__", None) for name in kept}
    return {name for name, spec in specs.items() if imports.folder_of(name, spec) not in folders}
