"""Files and folders from the controller's machine that were sent over the stream, stored by content.

Below ``top``: ``files/<sha256>``, ``items/<id>/<name>`` (what jobs read, made of links to the files), and ``partial``.
Jobs see the same under ``root``, where they may only read it, in a host with mount namespaces.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

from jupyter_smx.agent.errors import is_full
from jupyter_smx.agent.system.files import rmtree

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import HaveAnswer, ProvidedEntry

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOLDER, _PROGRAM, _FILE = 0o755, 0o555, 0o444
_FIRST_LINKS = 2
"""Names of a new file in one item: its own below ``files``, and the item's. The input cache adds more."""


class ProvisionError(Exception):
    """Bytes that do not follow the earlier ones, or a file with another digest than announced; send it again."""


class _Upload:
    """A file that was received in part."""

    def __init__(self) -> None:
        import hashlib  # noqa: PLC0415 - no start of a host pays for it

        self.offset = 0
        self.digest = hashlib.sha256()


class ProvidedFiles:
    """Files that controllers sent to this host; ``top`` is the agent's path of the folder, ``root`` that of jobs."""

    def __init__(self, top: str, root: str) -> None:
        self._top = top
        self._root = root
        self._uploads: Dict[str, _Upload] = {}
        self._facts: Dict[str, Tuple[int, int, int]] = {}

    def have(self, items: Sequence[str], files: Sequence[str], *, only: bool) -> HaveAnswer:
        """Return which of the items and files are on this host; ``only`` deletes all others.

        :raises ValueError: a name is no digest.
        """
        for name in (*items, *files):
            _check_digest(name)
        if only:
            self._delete_others({*items}, {*files})
        partial = {name: upload.offset for name, upload in self._uploads.items() if name in files}
        return {
            "root": self._root,
            "items": [name for name in items if os.path.isdir(self._path("items", name))],
            "files": [name for name in files if os.path.isfile(self._path("files", name))],
            "partial": partial,
        }

    def put(self, sha256: str, offset: int, total: int, data: bytes) -> int:
        """Append bytes to a file, and check its digest after the last ones. Return the number of bytes received so far.

        Of a file for which the disk has no room nothing stays.

        :raises ProvisionError: the bytes do not follow those here, or all of them have another digest.
        :raises ValueError: the name is no digest.
        :raises OSError: the file cannot be written.
        """
        path = self._path("files", _check_digest(sha256))
        if os.path.isfile(path):
            return total
        upload = self._uploads.setdefault(sha256, _Upload())
        if offset != upload.offset or offset + len(data) > total:
            raise ProvisionError(f"offset: {offset} does not follow the {upload.offset} bytes of {sha256} here.")
        partial = self._path("partial", sha256)
        os.makedirs(os.path.dirname(partial), mode=0o700, exist_ok=True)
        try:
            with open(partial, "r+b" if offset else "wb") as file:
                file.truncate(offset)  # a write that failed half-way has left some of its bytes
                file.seek(offset)
                file.write(data)
        except OSError as error:
            if is_full(error):  # its bytes take the room that other files of the host need
                del self._uploads[sha256]
                rmtree.remove_if_possible(partial)
            raise
        upload.offset += len(data)
        upload.digest.update(data)
        if upload.offset == total:
            self._finish(sha256, partial, path)
        return upload.offset

    def _finish(self, sha256: str, partial: str, path: str) -> None:
        upload = self._uploads.pop(sha256)
        if upload.digest.hexdigest() != sha256:
            os.unlink(partial)
            raise ProvisionError(f"sha256: the bytes sent as {sha256} have another digest; the file has changed.")
        os.makedirs(os.path.dirname(path), mode=_FOLDER, exist_ok=True)
        os.chmod(partial, _FILE)
        os.replace(partial, path)

    def place(self, item: str, name: str, entries: Sequence[ProvidedEntry]) -> str:
        """Create the file or folder ``name`` from files of this host; return its path for jobs.

        :raises ProvisionError: a file is not here.
        :raises ValueError: a name leads out of the item.
        :raises OSError: it cannot be created.
        """
        target = self._path("items", _check_digest(item))
        if not os.path.isdir(target):
            for path in (name, *(entry["path"] for entry in entries)):
                _check_relative(path)
            _check_relative(name or "..")
            partial = self._path("partial", item)
            rmtree.remove_if_possible(partial)
            try:
                os.makedirs(partial, mode=_FOLDER)
                self._build(os.path.join(partial, name), entries)
                os.makedirs(os.path.dirname(target), mode=_FOLDER, exist_ok=True)
                os.rename(partial, target)
            except BaseException:
                rmtree.remove_if_possible(partial)
                self._facts = {path: facts for path, facts in self._facts.items() if not path.startswith(partial)}
                raise
            self._facts = {path.replace(partial, target, 1): facts for path, facts in self._facts.items()}
        return os.path.join(self._root, "items", item, name)

    def _build(self, top: str, entries: Sequence[ProvidedEntry]) -> None:
        # Links come last, so that nothing is put where one of them leads. The times of folders change until then.
        for entry in sorted(entries, key=lambda one: one["kind"] == "link"):
            path = os.path.join(top, entry["path"]) if entry["path"] else top
            if entry["kind"] == "folder":
                os.makedirs(path, mode=_FOLDER, exist_ok=True)
            elif entry["kind"] == "link":
                os.symlink(entry["target"], path)
            else:
                self._link(entry, path)
        for entry in reversed([one for one in entries if one["kind"] == "folder"]):
            os.utime(os.path.join(top, entry["path"]), ns=(entry["mtime_ns"], entry["mtime_ns"]))

    def _link(self, entry: ProvidedEntry, path: str) -> None:
        import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

        source = self._path("files", _check_digest(entry["sha256"]))
        if not os.path.isfile(source):
            raise ProvisionError(f"sha256: {entry['sha256']} is not on this host; send it first.")
        # A program has a copy of its own, for links share their permissions.
        is_copy = entry["executable"] or not _link_if_possible(source, path)
        if is_copy:
            shutil.copyfile(source, path)
            os.chmod(path, _PROGRAM if entry["executable"] else _FILE)
        found = os.stat(path)
        if found.st_nlink <= _FIRST_LINKS:  # an item or the input cache has it: its time stays
            os.utime(path, ns=(entry["mtime_ns"], entry["mtime_ns"]))
            found = os.stat(path)
        self._facts[path if is_copy else source] = _facts_of(found)

    def changed_file(self) -> str:
        """Return a file that a job has changed or removed, "" for none; with read-only access there is none."""
        for path, facts in self._facts.items():
            try:
                now = _facts_of(os.stat(path))
            except OSError:
                return path
            if now != facts:
                return path
        return ""

    def _delete_others(self, items: "set[str]", files: "set[str]") -> None:
        for kind, needed in (("items", items), ("files", files), ("partial", files)):
            for name in self._names(kind):
                if name not in needed:
                    rmtree.remove_if_possible(self._path(kind, name))
        self._uploads = {name: upload for name, upload in self._uploads.items() if name in files}
        self._facts = {path: facts for path, facts in self._facts.items() if os.path.exists(path)}

    def _names(self, kind: str) -> List[str]:
        try:
            return os.listdir(os.path.join(self._top, kind))
        except FileNotFoundError:
            return []

    def _path(self, kind: str, name: str) -> str:
        return os.path.join(self._top, kind, name)


def _link_if_possible(source: str, path: str) -> bool:
    """Link a file; False where it has as many names as its file system allows, as an empty one soon has on ext4."""
    try:
        os.link(source, path)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        return False
    return True


def _facts_of(found: os.stat_result) -> Tuple[int, int, int]:
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _check_digest(name: Any) -> str:
    if isinstance(name, str) and _DIGEST.fullmatch(name):
        return name
    raise ValueError(f"{name!r} is not a SHA-256 in hexadecimal digits")


def _check_relative(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"{path!r} leads out of the item")
