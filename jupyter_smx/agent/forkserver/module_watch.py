"""Detect changes on the disk to files that a zygote has imported, in place or by replacement.

Uses inotify, so that a warm start makes one system call and reads no file. Without inotify, as on macOS, and for
changes by another machine on a network disk, only new installations are noticed: see
:class:`jupyter_smx.agent.code.packages.InstallSnapshot`.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import Dict, List, Mapping, Set

from jupyter_smx.agent.system.processes import process

_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000
_MODIFIED, _MOVED_FROM, _MOVED_TO, _CREATED, _DELETED, _ONLY_FOLDERS = 0x2, 0x40, 0x80, 0x100, 0x200, 0x01000000
_MASK = _MODIFIED | _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED | _ONLY_FOLDERS
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
_BUFFER = 65_536


class ModuleWatch:
    """Watches files by their folders: ``files`` are {folder: {name of a file: the top-level package that it is of}}."""

    def __init__(self, files: Mapping[str, Mapping[str, str]]) -> None:
        self._files: Dict[int, Mapping[str, str]] = {}
        self._changed: Set[str] = set()
        self._fd = int(process.libc().inotify_init1(_NONBLOCK_CLOEXEC)) if process.LINUX and files else -1
        for folder, names in files.items() if self._fd >= 0 else ():
            number = int(process.libc().inotify_add_watch(self._fd, os.fsencode(folder), _MASK))
            if number >= 0:
                self._files[number] = {**self._files.get(number, {}), **names}

    def changed(self) -> List[str]:
        """Name the packages of which a file was changed since this was made."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _BUFFER)
            except OSError:  # nothing more has happened
                break
            self._take(data)
        return sorted(self._changed)

    def _take(self, data: bytes) -> None:
        offset = 0
        while offset < len(data):
            number, mask, _cookie, length = _EVENT.unpack_from(data, offset)
            name = os.fsdecode(data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0"))
            offset += _EVENT.size + length
            files = self._files.get(number, {})
            if mask & _OVERFLOW:
                self._changed.update(*(one.values() for one in self._files.values()))
            elif name in files:
                self._changed.add(files[name])

    def close(self) -> None:
        """Stop watching. Idempotent."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
