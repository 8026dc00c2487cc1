"""``--source-dir``: pack a source folder without excluded files into an archive named by its content.

Version control, caches and virtual environments never travel, and neither does what a ``.gitignore`` in the folder
names. Links are followed, as SageMaker's SDK does. Equal content makes an equal archive, at any time.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import time
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.kernel.request.payload import store_by_digest
from jupyter_smx.kernel.request.script import check_folder
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.model.text import format_size
from jupyter_smx.rerun_spec import touch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pathspec import GitIgnoreSpec

    from jupyter_smx.kernel.request.payload import HashingWriter

MAX_BYTES = 512 * 1024**2
"""Bytes that a folder may have; data goes in by ``--input``."""
MAX_FILES = 50_000
IGNORE = ".gitignore"

_EXCLUDED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints"})
_VENV_MARKERS = ("pyvenv.cfg", "conda-meta")
_COMPRESSION_LEVEL = 1
"""Of compression: code is small, and what is large in the folder is rarely made smaller by a higher one."""
_MTIME_RESOLUTION = 2.0
"""Seconds since the newest change from which on times tell whether a file changed: some systems count no finer."""
_MAX_LISTED = 3


class _File(NamedTuple):
    """One file that travels, and all that tells cheaply whether it changed."""

    name: str
    path: str
    size: int
    runs: bool
    changed: tuple[int, int, int]


_pack_cache: dict[tuple[str, str], tuple[list[_File], SourceDir]] = {}
"""What was packed last of each folder by this process: an unchanged folder costs a look at its files."""


def pack(folder: str, payloads: Path, entry_point: str = "", clock: Callable[[], int] = time.time_ns) -> SourceDir:
    """Pack a folder into ``payloads/<sha256>.tar.gz``, mode 0600, unless it is there already.

    ``clock`` gives nanoseconds since the epoch, as files have them.

    :raises ValidationError: too large, a link that leads in a circle, a file that cannot be read, or the entry point
        is among what stays here.
    :raises UnavailableError: the disk is full or the folder of payloads cannot be written.
    """
    check_folder(folder)
    started = clock()
    walk = _walk(folder, "", (), _ParentFolders((), frozenset({os.path.realpath(payloads.parent)})))
    files = _check_files(folder, list(islice(walk, MAX_FILES + 1)), entry_point)
    known, packed = _pack_cache.get((folder, str(payloads)), (None, None))
    if packed is not None and known == files and touch(packed.path):
        return packed
    path, digest = store_by_digest(payloads, ".tar.gz", lambda tee: _write(files, tee))
    found = SourceDir(
        folder=folder, path=str(path), sha256=digest, files=len(files), size=sum(file.size for file in files)
    )
    newest = max((max(file.changed[:2]) for file in files), default=0)
    if newest < started - _MTIME_RESOLUTION * 1e9:
        _pack_cache[folder, str(payloads)] = (files, found)
    else:
        _pack_cache.pop((folder, str(payloads)), None)
    return found


class _ParentFolders(NamedTuple):
    """What is known of the folders above: their real paths, and folders that never travel."""

    real: tuple[str, ...]
    never: frozenset[str]


def _walk(path: str, name: str, rules: tuple[tuple[str, GitIgnoreSpec], ...], above: _ParentFolders) -> Iterator[_File]:
    real = os.path.realpath(path)
    if real in above.real:
        raise ValidationError(
            f"--source-dir: {name} is a link to a folder that contains it.",
            field="source_dir",
            value=name,
            rule="Links are followed, and this one is a loop.",
            cure=f"Remove it, or name it in {IGNORE}.",
        )
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _read_error(path, error) from error
    names = {entry.name for entry in found}
    if name and names.intersection(_VENV_MARKERS):
        return
    if IGNORE in names:
        rules = (*rules, (name, _rules(Path(path, IGNORE))))
    deeper = _ParentFolders((*above.real, real), above.never)
    for entry in found:
        inside = f"{name}/{entry.name}" if name else entry.name
        is_folder = entry.is_dir()
        if entry.name in _EXCLUDED_NAMES or _is_ignored(f"{inside}/" if is_folder else inside, rules):
            continue
        if is_folder and os.path.realpath(entry.path) not in above.never:
            yield from _walk(entry.path, inside, rules, deeper)
        elif entry.is_file():  # no socket, and no link to nothing
            yield _file(inside, entry)


def _rules(path: Path) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only folders with such a file pay for it

    try:
        return GitIgnoreSpec.from_lines(path.read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    except OSError as error:
        raise _read_error(path, error) from error


def _is_ignored(name: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """Ask the nearest file first: what it says of a name, yes or no, stands."""
    for base, spec in reversed(rules):
        said = spec.check_file(name[len(base) + 1 :] if base else name).include
        if said is not None:
            return said
    return False


def _file(name: str, entry: os.DirEntry[str]) -> _File:
    state = entry.stat()
    changed = (state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    return _File(name, entry.path, state.st_size, bool(state.st_mode & stat.S_IXUSR), changed)


def _check_files(folder: str, files: list[_File], entry_point: str) -> list[_File]:
    size = sum(file.size for file in files)
    if size > MAX_BYTES or len(files) > MAX_FILES:
        number = f"{len(files)} files" if len(files) <= MAX_FILES else f"more than {MAX_FILES} files"
        raise ValidationError(
            f"--source-dir: {folder} has {number}, {format_size(size)}.",
            field="source_dir",
            value=folder,
            rule=f"A source folder has at most {MAX_FILES} files and {format_size(MAX_BYTES)}. "
            f"The largest: {_format_largest(files)}.",
            cure=f"Add everything that is not code to {IGNORE}, and pass data with --input.",
        )
    names = {file.name for file in files}
    if entry_point and str(PurePosixPath(entry_point)) not in names:
        raise ValidationError(
            f"--entry-point: {entry_point} is excluded from the source folder.",
            field="entry_point",
            value=entry_point,
            rule=f"Caches, virtual environments and everything in {IGNORE} are excluded.",
            cure=f"Add !{entry_point} as the last line of {IGNORE}.",
        )
    return files


def _format_largest(files: Iterable[_File]) -> str:
    by_name: dict[str, int] = {}
    for file in files:
        top, slash, _ = file.name.partition("/")
        by_name[top + slash] = by_name.get(top + slash, 0) + file.size
    first = sorted(by_name.items(), key=lambda item: -item[1])[:_MAX_LISTED]
    return ", ".join(f"{name} {format_size(size)}" for name, size in first)


def _write(files: Iterable[_File], tee: HashingWriter) -> None:
    with (
        gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, tee, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            member = tarfile.TarInfo(file.name)
            member.mode = 0o755 if file.runs else 0o644
            try:
                with Path(file.path).open("rb") as content:
                    member.size = os.fstat(content.fileno()).st_size
                    archive.addfile(member, content)
            except OSError as error:
                if error.errno and not error.filename:
                    raise  # the disk is full, which is no fault of this file
                raise _read_error(file.path, error) from error


def _read_error(path: str | Path, error: OSError) -> SmxError:
    said = error.strerror or "it changed while it was read"
    first = "Give yourself the right to read it" if isinstance(error, PermissionError) else "Run the cell again"
    return ValidationError(
        f"--source-dir: {path} cannot be packed: {said}.",
        field="source_dir",
        value=path,
        cure=f"{first}, or name it in {IGNORE}.",
    )
