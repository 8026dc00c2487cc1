"""Find the sent files that install packages, once for each content, and those that a job may run."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Set

from jupyter_smx.agent.code.installs import detection

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec

RECORD = "installs.json"
"""Beside the unpacked code: {path: command} of the files that install packages; not there if none does."""
_SUFFIXES = (".py", ".sh", ".bash")
_PROGRAM = b"#!"
"""First bytes of a program without one of these endings."""
_MAX_SIZE = 1 << 20
"""Bytes; longer files are data."""
_WORD = re.compile(r"[\w.-]+")
_GENERIC = ("__init__", "__main__")
"""Names of files that are called by the name of their folder."""


def record(tree: str, home: str) -> None:
    """Write which files of a ``tree`` install packages into the folder ``home``.

    :raises OSError: disk full.
    """
    found = {}
    for path in code_files(tree):
        text = read_text(os.path.join(tree, path))
        command = detection.install_in(path, text) if detection.may_install(text) else ""
        if command:
            found[path] = command
    if found:
        with open(os.path.join(home, RECORD), "w", encoding="utf-8") as file:
            json.dump(found, file)


def install_in(home: str, code: str, spec: CompleteSpec) -> str:
    """Return the command by which a file that the job may run installs packages; "" if there is none.

    ``home`` has the record, ``code`` the files. A job may run what its script, or a file that it may run, names.
    """
    try:
        with open(os.path.join(home, RECORD), encoding="utf-8") as file:
            installers: Dict[str, str] = json.load(file)
    except OSError:
        return ""
    given = [*spec["arguments"], *(spec.get("hyperparameters") or {}).values()]
    words = words_of("\n".join([spec["source"], *map(str, given)]))
    left = [os.path.join(code, path) for path in code_files(code) if path != spec["entry_point"]]
    return reached_install(left, words, lambda path, _text: installers.get(os.path.relpath(path, code), ""))


def reached_install(paths: List[str], words: Set[str], install_of: Callable[[str, str], str]) -> str:
    """Return the command of the first file that installs packages, of those that a text with these words reaches.

    ``install_of`` returns the command of a file, by its path and text. Each file that is reached adds its own words.
    """
    while True:
        reached = [path for path in paths if _is_named(path, words)]
        if not reached:
            return ""
        for path in reached:
            text = read_text(path)
            command = install_of(path, text)
            if command:
                return command
            words |= words_of(text)
        paths = [path for path in paths if path not in reached]


def _is_named(path: str, words: Set[str]) -> bool:
    """Return True if a text with these words may import a file, or run it by its name."""
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    if ending != ".py" or name == "setup.py":
        return name in words
    return (os.path.basename(folder) if stem in _GENERIC else stem) in words


def words_of(text: str) -> Set[str]:
    """Return the words of a text: names of files, and parts of paths and module names."""
    whole = set(_WORD.findall(text))
    return whole.union(*(word.split(".") for word in whole))


def code_files(tree: str) -> List[str]:
    """Return the paths of scripts and programs within a folder."""
    return sorted(_walk(tree, ""))


def _walk(tree: str, inside: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(os.path.join(tree, inside)))
    except OSError:
        return
    for entry in entries:
        path = os.path.join(inside, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(tree, path)
        elif entry.is_file(follow_symlinks=False) and _is_code(entry):
            yield path


def _is_code(entry: "os.DirEntry[str]") -> bool:
    """Return True for scripts and programs; folders of code may have large files of data, too."""
    ending = os.path.splitext(entry.name)[1]
    if entry.stat(follow_symlinks=False).st_size > _MAX_SIZE or ending not in (*_SUFFIXES, ""):
        return False
    if ending:
        return True
    with open(entry.path, "rb") as file:
        return file.read(len(_PROGRAM)) == _PROGRAM


def read_text(path: str) -> str:
    """Return the text of a file; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
