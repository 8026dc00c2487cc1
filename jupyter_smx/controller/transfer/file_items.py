"""Files and folders of this machine as items: their entries and digests. Unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.agent.system.files.walk import descend, raise_unless_loop
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.agent.frames import ProvidedEntry

MAX_ENTRIES = 100_000
"""Files and folders of one item; their names have to fit into one frame."""
_MAX_DIGESTS = 200_000
_CHUNK_SIZE = 1 << 20


class FileItem(NamedTuple):
    """One source: its name, its id (SHA-256 of name and entries), its entries, and the path of each content."""

    source: str
    name: str
    id: str
    entries: tuple[ProvidedEntry, ...]
    contents: dict[str, tuple[str, int]]
    """Path and bytes by SHA-256."""


class FileDigests:
    """Digests of files by their status on the file system. All methods block; threads may share an instance."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, ...], str] = OrderedDict()

    def items(self, sources: Sequence[str], known: Mapping[str, str]) -> list[FileItem]:
        """Describe each source; ``known`` has digests of files by path, as of variables that a kernel has packed.

        :raises RefusedError: one of them does not exist or cannot be read.
        """
        return [self._item(source, known.get(source, "")) for source in sources]

    def _item(self, source: str, digest: str) -> FileItem:
        try:
            entries, contents = self._entries(source, digest)
        except OSError as problem:
            raise _refusal(source, problem.filename or source, problem.strerror or str(problem)) from problem
        name = Path(source).resolve().name or "root"
        # A file that was written again with equal bytes is the same one, as variables are that have not changed.
        told = [dict(entry, mtime_ns=0) for entry in entries] if len(entries) == 1 else entries
        text = json.dumps([name, told], separators=(",", ":"), sort_keys=True)
        return FileItem(source, name, hashlib.sha256(text.encode()).hexdigest(), tuple(entries), contents)

    def _entries(self, source: str, digest: str) -> tuple[list[ProvidedEntry], dict[str, tuple[str, int]]]:
        entries: list[ProvidedEntry] = []
        contents: dict[str, tuple[str, int]] = {}
        found = [("", source)]
        if Path(source).is_dir():
            for level in descend(source, follow=True, on_error=raise_unless_loop):
                if len(found) > MAX_ENTRIES:
                    raise _refusal(source, source, f"it has more than {MAX_ENTRIES} files and folders")
                found += [(level.inner(entry), entry.path) for entry in (*level.folders, *level.files)]
        for name, path in found:
            entry, size = self._entry(name, path, digest)
            entries.append(entry)
            if entry["sha256"]:
                contents[entry["sha256"]] = (path, size)
        return entries, contents

    def _entry(self, name: str, path: str, digest: str) -> tuple[ProvidedEntry, int]:
        try:
            facts = os.stat(path)  # noqa: PTH116 - as text
        except OSError:
            target = os.readlink(path)  # noqa: PTH115 - as text; raises for a path that is no link
            return _entry_of(name, "link", target=target), 0
        if stat.S_ISDIR(facts.st_mode):
            return _entry_of(name, "folder", facts), 0
        if not stat.S_ISREG(facts.st_mode):
            raise _refusal(path, path, "it is not a file or folder")
        return _entry_of(name, "file", facts, sha256=digest or self._digest(path, facts)), facts.st_size

    def _digest(self, path: str, facts: os.stat_result) -> str:
        key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _sha256(path, facts.st_size)
            if len(self._known) > _MAX_DIGESTS:
                self._known.popitem(last=False)
        return known

    def forget(self) -> None:
        """Read everything again, as after a file changed while it was read."""
        self._known.clear()


def _entry_of(
    name: str, kind: str, facts: os.stat_result | None = None, *, sha256: str = "", target: str = ""
) -> ProvidedEntry:
    executable = facts is not None and kind == "file" and bool(facts.st_mode & stat.S_IXUSR)
    moment = 0 if facts is None else facts.st_mtime_ns
    return {
        "path": name,
        "kind": kind,
        "sha256": sha256,
        "target": target,
        "executable": executable,
        "mtime_ns": moment,
    }


def _sha256(path: str, size: int) -> str:
    """Read so many bytes and no more: a log that grows meanwhile is sent as it was."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as text
        while size and (piece := file.read(min(_CHUNK_SIZE, size))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()


def _refusal(source: str, where: str, what: str) -> RefusedError:
    return RefusedError(
        f"source: {source!r} cannot be sent to the host: {where!r}, {what}.",
        field="source",
        value=source,
        rule="Hosts of another machine see only what is sent to them.",
        cure="Check that it exists and is readable, or use the URL of an object store.",
    )
