"""Parse the output of pip and uv: the current step, and why it failed, with the package and a cure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.model.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REASON = 700
"""Letters of a failure; a job's whole reason has 1024."""

_NAME = r"[A-Za-z0-9][\w.-]*"
_STEPS = (
    (re.compile(rf"(?:Collecting|Obtaining|Processing) (?:\S*/)?({_NAME})"), "Collecting {}"),
    (re.compile(rf"Building wheels? for (?:collected packages: )?({_NAME})"), "Building {}"),
    (re.compile(rf"\s*Building ({_NAME})"), "Building {}"),
    (re.compile(rf"\s*Downloading ({_NAME}) \((.+)\)"), "Downloading {} ({})"),
    (re.compile(rf"\s*Downloading (?:\S*/)?({_NAME}) \(([\d.]+ [kMG]i?B)\)"), "Downloading {} ({})"),
    (re.compile(r"Resolved (\d+) packages?"), "Resolved {} packages"),
    (re.compile(r"Prepared (\d+) packages?"), "Installing {} packages"),
)
_INSTALLING = re.compile(r"Installing collected packages: (.+)")
_COLLECTING = _STEPS[0][0]

_PACKAGES = (
    re.compile(r"No matching distribution found for ([^\s(]+)"),
    re.compile(r"satisfies the requirement ([^\s(]+)"),
    re.compile(rf"Because ({_NAME}) was not found"),
    re.compile(rf"there (?:is|are) no versions? of ({_NAME}\S*)"),
    re.compile(rf"Failed (?:to build|building wheel for)(?: installable wheels for [^(]*)? [`(]?({_NAME})"),
    re.compile(rf"Failed to (?:fetch|download)[^`]*`(?:\S*/)?({_NAME})"),
    re.compile(rf"Cannot install ({_NAME}\S*)"),
)  # fmt: skip
_NOISE = re.compile(r"\[notice\]|note: |hint: |\s*\[end of output\]|WARNING|warning: |INFO|\s*╰─> See above|\s*$")
_ERROR_PREFIX = re.compile(
    r"\s*(?:(?:ERROR|error|fatal):|×|╰─▶|cause:|Caused by:)\s*|\s*(?=[\w.]+(?:Error|Exception): )"
)
_PIP_ERROR = "subprocess-exited-with-error"

_NETWORK = re.compile(
    r"connection (refused|reset|broken|error)|timed? ?out|dns error|error sending request|name or service not known|"
    r"temporary failure in name resolution|failed to establish a new connection|network is unreachable|"
    r"no route to host|failed to lookup address|tunnel connection failed|client error \(connect\)",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"no space left|disk quota", re.IGNORECASE)
_NO_VENV = re.compile(r"ensurepip is not\s+available|No module named (venv|ensurepip|pip)\b")

_CURES = (
    (
        _NO_SPACE,
        "Free some space on the disk of the data folder.",
    ),
    (
        re.compile(r"hash(es)? (mismatch|.*do not match)|in --require-hashes mode", re.IGNORECASE),
        "The file on the index does not match the hash in the requirement.",
    ),
    (
        _NETWORK,
        "The package index is unreachable: try again, or set another one with --index-url in the file.",
    ),
    (
        _NO_VENV,
        (
            "This Python cannot create virtual environments: run `pip install uv` in the environment of "
            "jupyter_smx, or install python3-venv."
        ),
    ),
    (
        re.compile(
            r"conflicting dependencies|ResolutionImpossible|are incompatible|depends? on .*unsatisfiable", re.DOTALL
        ),
        "Relax one of the conflicting versions.",
    ),
    (
        re.compile(r"no matching distribution|was not found|no versions? of|there is no version", re.IGNORECASE),
        "Correct the name or the version, or set the right index with --index-url in the file.",
    ),
    (
        re.compile(r"failed (to build|building)|subprocess-exited-with-error|build backend", re.IGNORECASE),
        "It must be built from source: install its build tools, or choose a version that has a wheel.",
    ),
)
_CURE = "Correct the requirements."
_REMOTE_CURES: dict[re.Pattern[str] | None, str] = {
    _NO_SPACE: "Free some space on the disk of {}.",
    _NO_VENV: "The Python of {0} cannot create virtual environments: install uv or python3-venv on {0}.",
}
"""Cures on another machine, if they differ from those on this one."""


class InstallProgress:
    """Follows the lines of one installation and reports its current step."""

    def __init__(self) -> None:
        self._collected = 0
        self._resolved = 0
        self._fetched = 0

    def read_line(self, line: str) -> str:
        """Parse one line; return the step that it shows, empty if it shows none."""
        if found := _INSTALLING.match(line):
            return _format_packages(len(found[1].split(",")), "Installing")
        for pattern, form in _STEPS:
            if found := pattern.match(line):
                return form.format(*found.groups()).replace(" 1 packages", " 1 package") + self._count(pattern, found)
        return ""

    def _count(self, pattern: re.Pattern[str], found: re.Match[str]) -> str:
        if pattern is _COLLECTING:
            self._collected += 1
            return f" ({self._collected} so far)" if self._collected > 1 else ""
        if found[0].startswith("Resolved"):
            self._resolved = int(found[1])
        elif found[0].lstrip().startswith(("Downloading", "Building")) and self._resolved:
            self._fetched += 1
            return f", {self._fetched} of {self._resolved}"
        return ""


def _format_packages(count: int, verb: str) -> str:
    return f"{verb} {format_count(count, 'package')}"


def is_network_failure(lines: Sequence[str]) -> bool:
    """Return True if an installation failed because it reached no package index."""
    return any(_NETWORK.search(line) for line in lines)


def lacks_venv(lines: Sequence[str]) -> bool:
    """Return True if the base interpreter cannot create virtual environments."""
    return _NO_VENV.search("\n".join(lines)) is not None


def failure_reason(lines: Sequence[str], ended: str, machine: str = "") -> tuple[str, str]:
    """Return why an installation failed, from its last lines, and the cure.

    ``ended`` describes the program's end, as ``pip ended with exit code 1``; ``machine`` is the name of the machine, if
    it is not this one.
    """
    text = "\n".join(lines)
    package = next((found[1] for pattern in _PACKAGES if (found := pattern.search(text))), "").rstrip("`:,.)")
    package = package or next((found[1] for line in reversed(lines) if (found := _COLLECTING.match(line))), "")
    matching, cure = next(((pattern, cure) for pattern, cure in _CURES if pattern.search(text)), (None, _CURE))
    if machine and matching in _REMOTE_CURES:
        cure = _REMOTE_CURES[matching].format(machine)
    told = [line for line in lines if not _NOISE.match(line)]
    errors = [line for line in told if _ERROR_PREFIX.match(line) and _PIP_ERROR not in line]
    chosen = list(dict.fromkeys(_ERROR_PREFIX.sub("", line, count=1).strip() for line in (errors or told)[-3:]))
    what = " ".join(part if part.endswith((".", ":")) else f"{part}." for part in chosen if part)
    subject = f"{package} cannot be installed: " if package and package not in ended else ""
    return f"{subject}{ended}. {what}".strip()[:MAX_REASON], cure
