"""Names of machines in a user's configuration of ssh, to suggest and to check one; ssh itself reads the rest."""

from __future__ import annotations

import glob
import os
import shlex
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

_DEPTH = 4
"""Levels of ``Include`` that are followed."""


class HostAliases(Struct, frozen=True):
    """``names`` that stand behind ``Host``, and ``patterns`` of names, except those that fit every name."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        """Return True if a pattern matches a name."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


def read(path: Path) -> HostAliases:
    """Read the configuration and its includes; unreadable files have no names. Blocks."""
    words = list(dict.fromkeys(_host_words(path, _DEPTH)))
    names = tuple(word for word in words if not any(sign in word for sign in "*?!"))
    patterns = tuple(word for word in words if word not in names and word.strip("*?") and not word.startswith("!"))
    return HostAliases(names, patterns)


def _host_words(path: Path, depth: int) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        keyword, words = _split(line)
        if keyword == "host":
            found += words
        elif keyword == "include" and depth:
            found += [name for word in words for file in _included(word) for name in _host_words(file, depth - 1)]
    return found


def _split(line: str) -> tuple[str, list[str]]:
    try:
        words = shlex.split(line.replace("=", " ", 1), comments=True)
    except ValueError:
        return "", []
    return (words[0].lower(), words[1:]) if words else ("", [])


def _included(word: str) -> list[Path]:
    """Return the files of an ``Include``: relative paths are in ``~/.ssh``."""
    place = os.path.join(os.path.expanduser("~/.ssh"), os.path.expanduser(word))  # noqa: PTH111, PTH118 - of a pattern
    return [Path(found) for found in sorted(glob.glob(place))]  # noqa: PTH207 - an absolute pattern
