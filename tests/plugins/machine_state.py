"""What a test must leave as it was: device nodes, the interpreter, three files of ``/etc``, dot files of the home."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

State = dict[str, tuple[object, ...]]
"""Facts of each path."""
_DEVICES = Path("/dev")
_FILES = tuple(Path("/etc", name) for name in ("hosts", "passwd", "resolv.conf"))
_CACHE = "__pycache__"


def read(devices: Path = _DEVICES, files: tuple[Path, ...] = _FILES, home: Path | None = None) -> State:
    """Read the state; a device is its type, numbers and mode, a file its identity, size and time of change.

    Each test does so: all is read by ``os``, since ``pathlib`` takes longer than the kernel does.
    """
    folders = _interpreter_folders(sys.prefix, sys.base_prefix)
    found = dict(_listing(tuple((folder, facts.st_mtime_ns) for folder in folders if (facts := _stat(folder)))))
    for entry in _entries(devices):
        found[entry.path] = _device(entry)
    for path in files:
        if facts := _stat(path):
            found[str(path)] = _file(facts)
    for entry in _entries(home or os.path.expanduser("~")):  # noqa: PTH111 - see above
        if entry.name.startswith(".") and not entry.is_dir(follow_symlinks=False):
            found[entry.path] = _file(entry.stat(follow_symlinks=False))
    return found


def differences(before: State, after: State) -> list[str]:
    """Say what is new, gone or different. Pure."""
    if before == after:  # as after most tests, of thousands of paths
        return []
    new = [f"{path} is new" for path in after if path not in before]
    gone = [f"{path} is gone" for path in before if path not in after]
    changed = [f"{path} has changed" for path in before if path in after and before[path] != after[path]]
    return sorted(new + gone + changed)


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _stat(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - see above
    except OSError:
        return None


@lru_cache
def _listing(folders: tuple[tuple[str, int], ...]) -> State:
    """List large folders, once for all times of their last changes."""
    return {entry.path: () for folder, _changed_at in folders for entry in _entries(folder) if entry.name != _CACHE}


def _device(entry: os.DirEntry[str]) -> tuple[object, ...]:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return ()
    return found.st_mode, found.st_rdev


def _file(found: os.stat_result) -> tuple[object, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache
def _interpreter_folders(*prefixes: str) -> list[str]:
    """List the folders of programs and packages, of the environment and of the Python below it."""
    version = "python{}.{}".format(*sys.version_info)
    insides = ("bin", f"lib/{version}", f"lib/{version}/site-packages")
    return [os.path.join(prefix, inside) for prefix in dict.fromkeys(prefixes) for inside in insides]  # noqa: PTH118
