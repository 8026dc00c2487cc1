"""``--source-dir``: pack a source folder without excluded files into an archive named by its content.

Version control, caches and virtual environments stay behind, and so does what a ``.gitignore`` in the folder names;
``--source-ignore none`` sends all files, as SageMaker's SDK does. Links are followed, as there. Equal content makes an
equal archive, at any time. An unchanged folder is not read again: its files are compared with those of an archive that
this or another process has packed.
"""

from __future__ import annotations

import os
import re
import time
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.kernel.request import pack_cache, source_archive
from jupyter_smx.kernel.request.code_files import name_in_job
from jupyter_smx.kernel.request.payload import store_by_digest
from jupyter_smx.kernel.request.script import check_folder
from jupyter_smx.kernel.request.source_archive import SourceFile, file_state
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pathspec import GitIgnoreSpec

    from jupyter_smx.kernel.request.payload import HashingWriter

MAX_BYTES = 512 * 1024**2
"""Bytes that a folder may have; data goes in by ``--input``."""
MAX_FILES = 50_000
IGNORE = ".gitignore"

_GROUP_NAME = re.compile(r"\(\?P<\w+>")
"""A name may occur once in an expression, and each pattern of a ``.gitignore`` has the same one."""
_EXCLUDED_NAMES = frozenset({".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints"})
_VENV_MARKERS = ("pyvenv.cfg", "conda-meta")
_MTIME_RESOLUTION = 2.0
"""Seconds after the newest change from which times detect further changes: some systems have no finer times."""
_MAX_LISTED = 3
_MAX_IGNORED = 200
"""Names of ignored files that travel with the job, for the text of its failure."""


def pack(
    folder: str,
    payloads: Path,
    entry_point: str = "",
    clock: Callable[[], int] = time.time_ns,
    *,
    dependencies: Sequence[str] = (),
    script: str = "",
    sends_all: bool = False,
) -> SourceDir:
    """Pack a folder into ``payloads/<sha256>.tar.gz``, mode 0600, unless it is there already.

    ``dependencies`` are files and folders that are put beside its files; of equal names theirs is packed. Without a
    ``folder`` ("") the ``script`` is packed with them, the path of the entry point, if there is one.
    ``clock`` gives nanoseconds since the epoch, as files have them. With ``sends_all`` nothing is excluded.

    :raises ValidationError: too large, a link that leads in a circle, an unreadable file, or an ignored entry point.
    :raises UnavailableError: the disk is full or the folder of payloads cannot be written.
    """
    started = clock()
    ignored: list[str] = []
    walk = _Walk(frozenset({os.path.realpath(payloads.parent)}), ignored.append, sends_all=sends_all)
    found: Iterable[SourceFile] = [_file(entry_point, script)] if script else []
    if folder:
        check_folder(folder)
        found = walk.files(folder, "", (), ())
    if dependencies:
        found = _with_dependencies(found, dependencies, walk)
    listing = list(islice(found, MAX_FILES + 1))
    files = _check_files(folder or ", ".join(dependencies), listing, entry_point, sends_all=sends_all)
    fingerprint = pack_cache.fingerprint(files)
    digest = pack_cache.find(payloads, fingerprint)
    if not digest:
        path, digest, is_unchanged = _pack(files, payloads)
        if is_unchanged and _is_settled(files, started):
            pack_cache.store(payloads, fingerprint, path, digest)
    return SourceDir(
        folder=folder,
        path=str(payloads / f"{digest}{pack_cache.SUFFIX}"),
        sha256=digest,
        files=len(files),
        size=sum(file.state.size for file in files),
        ignored=tuple(ignored[:_MAX_IGNORED]),
        dependencies=tuple(sorted(map(name_in_job, dependencies))),
    )


def _with_dependencies(files: Iterable[SourceFile], dependencies: Iterable[str], walk: _Walk) -> Iterator[SourceFile]:
    """Yield files by their names, since the order of an archive is a part of its digest."""
    found = {file.name: file for file in islice(files, MAX_FILES + 1)}
    for path in dependencies:
        name = name_in_job(path)
        inside = walk.files(path, name, (), ()) if Path(path).is_dir() else [_file(name, path)]
        found.update((file.name, file) for file in islice(inside, MAX_FILES + 1))
    yield from (found[name] for name in sorted(found))


def ignored_files(source: SourceDir) -> Iterator[SourceFile]:
    """Yield the files that a ``.gitignore`` kept out of a packed folder, as they are now; of several folders none.

    Virtual environments and caches below these names stay out, as SageMaker's images could not use them.

    :raises ValidationError: a link that leads in a circle, or an unreadable folder.
    """
    walk = _Walk(frozenset(), lambda _name: None, sends_all=False)
    for name in source.ignored if source.folder else ():
        path, inside = Path(source.folder, name), name.rstrip("/")
        if path.is_dir():
            yield from walk.files(str(path), inside, (), ())
        elif path.is_file():
            yield _file(inside, str(path))


def _file(name: str, path: str) -> SourceFile:
    try:
        return SourceFile(name, path, file_state(Path(path).stat()))
    except OSError as error:
        raise _read_error(path, error) from error


def _pack(files: list[SourceFile], payloads: Path) -> tuple[Path, str, bool]:
    """Write the archive; give its path, its SHA-256, and whether no file changed meanwhile."""
    unchanged: list[bool] = []

    def write(sink: HashingWriter) -> None:
        unchanged.append(source_archive.write(files, sink, lambda file, error: _read_error(file.path, error)))

    path, digest = store_by_digest(payloads, pack_cache.SUFFIX, write, keep=True)
    return path, digest, all(unchanged)


def _is_settled(files: Iterable[SourceFile], started: int) -> bool:
    """Return True if a later change of any file is certain to get another time, so that it is detected.

    A time of writing in the future was set by a program, which the change time shows.
    """
    limit = started - _MTIME_RESOLUTION * 1e9
    return all(state.ctime_ns < limit and not limit <= state.mtime_ns <= started for _, _, state in files)


class _Rules(NamedTuple):
    """The rules of a ``.gitignore``. To try ``any_pattern`` first is four times as fast: most names match none."""

    base: str
    spec: GitIgnoreSpec
    any_pattern: re.Pattern[str]

    def includes(self, name: str) -> bool | None:
        """Return True if a name is ignored, False if a line includes it; None without such a line."""
        inside = name[len(self.base) + 1 :] if self.base else name
        return self.spec.check_file(inside).include if self.any_pattern.match(inside) else None


class _Walk:
    """Lists the files of a folder that travel; ``report_ignored`` gets the names that a ``.gitignore`` excludes.

    ``never`` are real paths of folders that never travel.
    """

    def __init__(self, never: frozenset[str], report_ignored: Callable[[str], object], *, sends_all: bool) -> None:
        self._never = never
        self._report_ignored = report_ignored
        self._sends_all = sends_all

    def files(self, path: str, name: str, rules: tuple[_Rules, ...], above: tuple[str, ...]) -> Iterator[SourceFile]:
        """Yield the files of one folder and of those in it; ``above`` are the real paths of the folders around it."""
        real = os.path.realpath(path)
        if real in above:
            raise ValidationError(
                f"--source-dir: {name} is a link to a folder that contains it.",
                field="source_dir",
                value=name,
                rule="Links are followed, and this one is a loop.",
                cure="Remove it." if self._sends_all else f"Remove it, or name it in {IGNORE}.",
            )
        found = _scan(path)
        names = {entry.name for entry in found}
        if not self._sends_all:
            if name and names.intersection(_VENV_MARKERS):
                return
            if IGNORE in names:
                rules = (*rules, _read_rules(name, Path(path, IGNORE)))
        for entry in found:
            inside = f"{name}/{entry.name}" if name else entry.name
            is_folder = entry.is_dir()
            if self._is_excluded(entry.name, f"{inside}/" if is_folder else inside, rules):
                continue
            if is_folder and os.path.realpath(entry.path) not in self._never:
                yield from self.files(entry.path, inside, rules, (*above, real))
            elif entry.is_file():  # no socket, and no link to nothing
                yield SourceFile(inside, entry.path, file_state(entry.stat()))

    def _is_excluded(self, name: str, inside: str, rules: tuple[_Rules, ...]) -> bool:
        if self._sends_all:
            return False
        if name in _EXCLUDED_NAMES:
            return True
        if rules and _is_ignored(inside, rules):
            self._report_ignored(inside)
            return True
        return False


def _scan(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _read_error(path, error) from error


def _read_rules(base: str, path: Path) -> _Rules:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only folders with such a file pay for it

    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise _read_error(path, error) from error
    spec = GitIgnoreSpec.from_lines(lines)
    found = [_GROUP_NAME.sub("(?:", each.regex.pattern) for each in spec.patterns if each.regex is not None]
    return _Rules(base, spec, re.compile("|".join(map(_anchored, found)) or r"(?!)"))


def _anchored(pattern: str) -> str:
    """Write a pattern that is searched for, as that of ``*/``, so that it matches from the beginning."""
    return f"(?:{pattern})" if pattern.startswith("^") else f"(?s:.*?)(?:{pattern})"


def _is_ignored(name: str, rules: tuple[_Rules, ...]) -> bool:
    """Check the nearest file first: its answer for a name, yes or no, is final."""
    return next((said for each in reversed(rules) if (said := each.includes(name)) is not None), False)


def _check_files(folder: str, files: list[SourceFile], entry_point: str, *, sends_all: bool) -> list[SourceFile]:
    size = sum(file.state.size for file in files)
    if size > MAX_BYTES or len(files) > MAX_FILES:
        number = f"{len(files)} files" if len(files) <= MAX_FILES else f"more than {MAX_FILES} files"
        raise ValidationError(
            f"--source-dir: {folder} has {number}, {format_size(size)}.",
            field="source_dir",
            value=folder,
            rule=f"A source folder has at most {MAX_FILES} files and {format_size(MAX_BYTES)}. "
            f"The largest: {_format_largest(files)}.",
            cure=("Leave out --source-ignore none. " if sends_all else "")
            + f"Add everything that is not code to {IGNORE}, and pass data with --input.",
        )
    names = {file.name for file in files}
    if entry_point and str(PurePosixPath(entry_point)) not in names:
        raise ValidationError(
            f"--entry-point: {entry_point} is excluded from the source folder.",
            field="entry_point",
            value=entry_point,
            rule=f"Caches, virtual environments and everything in {IGNORE} are excluded.",
            cure=f"Add !{entry_point} as the last line of {IGNORE}, or send all files with --source-ignore none.",
        )
    return files


def _format_largest(files: Iterable[SourceFile]) -> str:
    by_name: dict[str, int] = {}
    for file in files:
        top, slash, _ = file.name.partition("/")
        by_name[top + slash] = by_name.get(top + slash, 0) + file.state.size
    first = sorted(by_name.items(), key=lambda item: -item[1])[:_MAX_LISTED]
    return ", ".join(f"{name} {format_size(size)}" for name, size in first)


def _read_error(path: str | Path, error: OSError) -> SmxError:
    said = error.strerror or "it changed while it was read"
    first = "Give yourself the right to read it" if isinstance(error, PermissionError) else "Run the cell again"
    return ValidationError(
        f"--source-dir: {path} cannot be packed: {said}.",
        field="source_dir",
        value=path,
        cure=f"{first}, or name it in {IGNORE}.",
    )
