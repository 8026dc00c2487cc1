"""Read a requirements file into the job request: pip's format, without references to other files.

What the file names is looked for beside it. ``-r`` and ``-c`` files are read in their place (a line of a constraints
file becomes ``-c NAME<2``), and local paths become absolute. A ``# content …`` comment identifies the content of such a
path, so that a change of it creates a new environment.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.kernel.options.option_values import expand_user
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPTION = "--requirements"
_MAX_CHARACTERS = 262_144
_MAX_FILES = 5_000
_DIGITS = 12
_COMMENT = re.compile(r"(^|\s)#.*$")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CREDENTIALS = re.compile(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@")
_FLAGS = re.compile(
    r"(?P<flag>--requirement|--constraint|--editable|--find-links|-[rcef])(?:\s+|\s*=\s*|(?=[^\s=-]))(?P<value>.+)"
)
_LOCAL = re.compile(r"(?P<path>[^;\[\s]+)(?P<rest>(?:\[[^\]]*\])?\s*(?:;.*)?)")
_ARCHIVE_SUFFIXES = (".whl", ".tar.gz", ".zip", ".tar.bz2")
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_NO_CONTENT = {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "build", "dist", ".mypy_cache", ".pytest_cache"}
_SPLIT = re.compile(r",(?![^\[]*\])\s*(?=[A-Za-z0-9])")


def read(word: str | Path, folder: Path) -> tuple[str, ...]:
    """Read a file and everything that it names; relative paths start at ``folder``.

    :raises ValidationError: no such file, or a line that cannot be honoured; names file, line and rule.
    """
    path = folder / expand_user(word)
    lines = tuple(_file(path, str(word), (), "", ""))
    size = sum(map(len, lines))
    if size > _MAX_CHARACTERS:
        raise _requirements_error(f"{word} has {size} characters.", str(word), rule=f"{_MAX_CHARACTERS} at most.")
    return lines


def specifiers(words: Sequence[str], where: str = _OPTION) -> tuple[str, ...]:
    """Check requirements outside a file, as ``numpy`` or ``pandas==2.2``.

    :raises ValidationError: one is invalid.
    """
    for word in words:
        _check(word, word, where)
    return tuple(word.strip() for word in words)


def split(text: str) -> list[str]:
    """Part ``numpy>=1,<3,pandas[a,b]`` where a new name begins."""
    return [part for part in _SPLIT.split(text.strip()) if part]


def _file(path: Path, shown: str, above: tuple[Path, ...], where: str, prefix: str) -> Iterator[str]:
    text = _text(path, shown, where)
    real = path.resolve()  # after the reading, which refuses names that no file can have
    if real in above:
        raise _requirements_error(f"{where}{shown} names itself, by a circle of -r or -c.", shown)
    for number, line in _logical_lines(text):
        yield from _line(line, path, (*above, real), f"{shown} line {number}: ", prefix)


def _text(path: Path, shown: str, where: str) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = suggest_names(path.name, _requirement_files(path))
        raise _requirements_error(
            f"{where}{shown} does not exist.", shown, cure=near or f"It was looked for at {path}."
        ) from None
    except UnicodeDecodeError as error:
        raise _requirements_error(f"{where}{shown} is not text: {error}.", shown) from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise _requirements_error(f"{where}{shown} cannot be read: {said}.", shown) from None
    return text


def _requirement_files(path: Path) -> list[str]:
    try:
        return [found.name for found in path.parent.iterdir() if found.suffix in {".txt", ".in"}]
    except OSError:
        return []


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join what a backslash continues, and drop comments, as pip does."""
    held, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        begun = begun or number
        if line.rstrip().endswith("\\") and not _COMMENT.match(line):
            held += f"{line.strip()[:-1].strip()} "
            continue
        whole = _COMMENT.sub("", held + line.strip()).strip()
        if whole:
            yield begun, whole
        held, begun = "", 0
    if held.strip():
        yield begun, held.strip()


def _line(line: str, file: Path, above: tuple[Path, ...], where: str, prefix: str) -> Iterator[str]:
    if _CREDENTIALS.search(line):
        raise _requirements_error(
            f"{where}an address has a password.",
            where,
            rule="Requirements are stored in the records of jobs, which must not contain secrets.",
            cure="Write ${NAME} for it, which pip and uv replace by a variable, or use ~/.netrc or pip's keyring.",
        )
    flag = _FLAGS.fullmatch(line)
    if flag is None:
        yield line if line.startswith("-") else prefix + _requirement(line, file.parent, where)
        return
    name, value = flag["flag"].lstrip("-")[0], flag["value"].strip().strip("\"'")
    if name in "rc":
        yield from _named_file(value, file, above, where, _line_prefix(name, prefix))
    elif name == "e":
        yield f"-e {_project(value, file.parent, where)}"
    else:
        yield f"--find-links {_links(value, file.parent)}"


def _line_prefix(name: str, prefix: str) -> str:
    return "-c " if name == "c" else prefix


def _named_file(value: str, file: Path, above: tuple[Path, ...], where: str, prefix: str) -> Iterator[str]:
    if "://" in value:
        raise _requirements_error(
            f"{where}{value} is an address.",
            value,
            rule="Its content may change, so an environment could not be identified by it.",
            cure="Download it and name the file.",
        )
    return _file(file.parent / value, value, above, where, prefix)


def _links(value: str, folder: Path) -> str:
    local = folder / value
    return str(local.absolute()) if "://" not in value and local.exists() else value


def _requirement(line: str, folder: Path, where: str) -> str:
    """Return a line with local paths made absolute, followed by a digest of their content."""
    local = _LOCAL.fullmatch(line)
    if local is not None and _is_path(local["path"], folder):
        found = _find_local(local["path"], folder, where)
        rest = " ".join(local["rest"].split())
        return (
            f"{found}{'' if rest.startswith('[') or not rest else ' '}{rest} # content {_content_digest(found, where)}"
        )
    if " @ file://" in line:
        target = Path(line.partition("file://")[2].partition(";")[0].partition("#")[0].strip())
        return f"{line} # content {_content_digest(_find_local(str(target), folder, where), where)}"
    if not _URL.match(line):
        _check(line.partition(" --")[0], line, where)
    return line


def _is_path(word: str, folder: Path) -> bool:
    if _URL.match(word):
        return word.startswith("file:")
    return (
        word.startswith((".", "/", "~"))
        or word.endswith(_ARCHIVE_SUFFIXES)
        or ("/" in word and (folder / word).exists())
    )


def _project(value: str, folder: Path, where: str) -> str:
    """Make the path of an editable project absolute; its metadata are what an environment depends on."""
    if _URL.match(value) and not value.startswith("file:"):
        return value
    local = _LOCAL.fullmatch(value)
    found = _find_local(local["path"] if local else value, folder, where)
    known = [found / name for name in _PROJECT if (found / name).is_file()]
    if not known:
        raise _requirements_error(f"{where}{value} has no pyproject.toml and no setup.py.", value)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in known)).hexdigest()[:_DIGITS]
    extras = local["rest"].strip() if local else ""
    return f"{found}{extras} # content {digest}"


def _find_local(word: str, folder: Path, where: str) -> Path:
    found = (folder / expand_user(word.removeprefix("file://").removeprefix("file:"))).absolute()
    found = Path(os.path.normpath(found))
    if found.exists():
        return found
    raise _requirements_error(f"{where}{word} does not exist.", word, rule=f"It was looked for at {found}.")


def _content_digest(path: Path, where: str) -> str:
    """Return a short digest of a path: of a file's bytes; of names, sizes and times of a folder's files."""
    if path.is_file():
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(1_048_576):
                digest.update(piece)
        return digest.hexdigest()[:_DIGITS]
    rows = []
    for root, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _NO_CONTENT and not name.endswith(".egg-info"))
        for name in sorted(files):
            status = os.stat(os.path.join(root, name), follow_symlinks=False)  # noqa: PTH116, PTH118 - thousands
            rows.append(f"{os.path.relpath(root, path)}/{name} {status.st_size} {status.st_mtime_ns}")
        if len(rows) > _MAX_FILES:
            raise _requirements_error(
                f"{where}{path} has more than {_MAX_FILES} files.",
                path,
                rule="They are looked at for each job, to see whether its environment is still the right one.",
                cure="Build a wheel of it and name that.",
            )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:_DIGITS]


def _check(text: str, line: str, where: str) -> None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only requirements need it

    try:
        Requirement(text.strip())
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise _requirements_error(
            f"{where if where.endswith(': ') else f'{where}: '}{line!r} is not a requirement.",
            line,
            rule=f"{reason}.",
            cure="For example numpy, pandas==2.2 or scikit-learn>=1.5,<2.",
            option="" if where.startswith("--") else _OPTION,
        ) from None


def _requirements_error(
    message: str, value: object, *, rule: str = "", cure: str = "", option: str = _OPTION
) -> ValidationError:
    begin = f"{option}: " if option else ""
    return ValidationError(f"{begin}{message}", field="requirements", value=value, rule=rule, cure=cure)
