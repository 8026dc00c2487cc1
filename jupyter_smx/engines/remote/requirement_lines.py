"""Lines of requirements that name files of the controller's machine, and how they read on another one. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TOKEN = "{wheels}"  # noqa: S105 - no secret
"""Stands in a line for the folder of the packages that were sent."""

_PATH = re.compile(r"(?P<path>/[^;\[]*?)(?P<rest>(?:\[[^\]]*\])?\s*(?:;.*?)?)(?:\s+# content .*)?")
_FILE_URL = re.compile(r"(?P<name>[^@]*@\s*)file://(?P<path>/[^;#\s]*)(?P<rest>[^#]*?)(?:\s*# content .*)?")
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
_INDEX = re.compile(
    r"(?P<flag>--index-url|-i|--extra-index-url|--find-links|-f|--trusted-host|--no-index)\b\s*=?\s*(?P<value>.*)"
)

_UV_VARIABLES = {
    "--index-url": "UV_INDEX_URL",
    "-i": "UV_INDEX_URL",
    "--extra-index-url": "UV_EXTRA_INDEX_URL",
    "--find-links": "UV_FIND_LINKS",
    "-f": "UV_FIND_LINKS",
    "--no-index": "UV_NO_INDEX",
}


class LocalRequirement(NamedTuple):
    """A requirement at a path: the text before the path in its line, and the text after it."""

    before: str
    path: str
    rest: str


def local_requirement(line: str) -> LocalRequirement | None:
    """Read a line that names a wheel, an archive or a project of the controller's machine; None of any other line."""
    if found := _PATH.fullmatch(line):
        return LocalRequirement("", found["path"].rstrip(), found["rest"].rstrip())
    if found := _FILE_URL.fullmatch(line):
        return LocalRequirement(f"{found['name']}file://", found["path"], found["rest"].rstrip())
    return None


def local_paths(lines: Iterable[str]) -> list[str]:
    """Name the wheels, archives and projects of the controller's machine that the lines require."""
    found = (local_requirement(line) for line in lines)
    return list(dict.fromkeys(each.path for each in found if each is not None))


def replace_paths(lines: Iterable[str], files: Mapping[str, str]) -> list[str]:
    """Replace paths in lines by files in the folder for which :data:`TOKEN` stands; ``files`` has names by path."""
    return [_replace_path(line, files) for line in lines]


def _replace_path(line: str, files: Mapping[str, str]) -> str:
    found = local_requirement(line)
    if found is None:
        return line
    return f"{found.before}{TOKEN}/{files[found.path]}{found.rest}"


def index_lines(lines: Iterable[str]) -> list[str]:
    """Return only the lines about indexes."""
    return [line for line in lines if _INDEX.fullmatch(line)]


def index_variables(lines: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the lines about indexes as variables of uv, for its commands that read no requirements file."""
    found: dict[str, list[str]] = {}
    for flag, value in _pairs(lines):
        if name := _UV_VARIABLES.get(flag):
            found.setdefault(name, []).append(_expand(value, environ) or "1")
    return {name: (" " if name == "UV_EXTRA_INDEX_URL" else ",").join(values) for name, values in found.items()}


def has_local_index(lines: Sequence[str]) -> bool:
    """Return True if packages come from a folder of the controller's machine."""
    return any(flag in ("--find-links", "-f") and value.startswith("/") for flag, value in _pairs(lines))


def _pairs(lines: Iterable[str]) -> list[tuple[str, str]]:
    found = (_INDEX.fullmatch(line) for line in lines)
    return [(each["flag"], each["value"]) for each in found if each is not None]


def without_indexes(lines: Iterable[str]) -> list[str]:
    """Leave out the options about indexes: all packages are in one folder."""
    return [line for line in lines if not _INDEX.fullmatch(line)]


def variables(lines: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lines name as ``${NAME}``, if ``environ`` has them."""
    names = {name for line in lines for name in _VARIABLE.findall(line)}
    return {name: environ[name] for name in sorted(names) if name in environ}


def _expand(text: str, environ: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), text)
