"""The origin of a request: the notebook, its cell, and the git commit, read from git's own files."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.results.provenance import Revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Cell ids that nbformat allows; other front ends store other values in the same place."""

_State = tuple[int, int, int] | None

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_POINTER = "gitdir:"
_REF = "ref:"
_BRANCH = "refs/heads/"

_MAX_SYMREFS = 5
"""References that lead to references, at most."""


def notebook_of(namespace: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> str:
    """Return the notebook's path from Jupyter's server or VS Code; "" elsewhere."""
    return str(environment.get("JPY_SESSION_NAME") or namespace.get("__vsc_ipynb_file__") or "")


def cell_id_of(shell: Any) -> str:
    """Return the id of the cell that a shell (None: a plain Python process) runs now, "" if it is unknown."""
    kernel = getattr(shell, "kernel", None)
    metadata = kernel.get_parent().get("metadata") if kernel is not None else None
    found = metadata.get("cellId") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and _CELL_ID.fullmatch(found) else ""


class RevisionReader:
    """Reads the commit of a folder, again only after one of git's files changed: each submission waits for it."""

    def __init__(self) -> None:
        self._last: _Look | None = None

    def read(self, folder: Path) -> Revision | None:
        """Return the commit of the work tree around ``folder``; None outside of one, or before its first commit.

        Changes since the commit are not checked: that would read all files.
        """
        look = self._last
        if look is None or not look.is_current(folder):
            look = self._last = _Look(folder)
        return look.revision


class _Look:
    """One look at git's files, with the state of each path at that time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._states: dict[str, _State] = {}
        self.revision = self._find(folder)

    def is_current(self, folder: Path) -> bool:
        """Return True if another look from this folder would show the same."""
        return folder == self._folder and all(_state(path) == state for path, state in self._states.items())

    def _look(self, path: Path) -> _State:
        state = self._states[os.fspath(path)] = _state(os.fspath(path))
        return state

    def _read_text(self, path: Path) -> str:
        self._look(path)  # before it is read: a change meanwhile is a change since then
        return path.read_text(encoding="utf-8")

    def _find(self, folder: Path) -> Revision | None:
        for top in (folder, *folder.parents):
            if self._look(top / ".git") is not None:
                return self._read_revision(top, top / ".git")
        return None

    def _read_revision(self, top: Path, marker: Path) -> Revision | None:
        try:
            own = self._git_dir(marker)
            head = self._read_text(own / "HEAD").strip()
            commit, branch = self._resolve_head(own, self._common_dir(own), head)
        except (OSError, UnicodeDecodeError):
            return None
        if not _COMMIT.fullmatch(commit):
            return None
        return Revision(commit=commit, branch=branch, folder=str(top))

    def _git_dir(self, marker: Path) -> Path:
        """Return the folder of git's files: ``.git`` itself, or its target in a worktree or a submodule."""
        if marker.is_dir():
            return marker
        said = self._read_text(marker).strip()
        return marker.parent / said.removeprefix(_POINTER).strip() if said.startswith(_POINTER) else marker

    def _common_dir(self, own: Path) -> Path:
        """Return the folder that all worktrees of a repository share, which has the branches."""
        try:
            return own / self._read_text(own / "commondir").strip()
        except OSError:
            return own

    def _resolve_head(self, own: Path, shared: Path, head: str) -> tuple[str, str]:
        branch, value = "", head
        for _ in range(_MAX_SYMREFS):
            if not value.startswith(_REF):
                break
            name = value.removeprefix(_REF).strip()
            branch = branch or name.removeprefix(_BRANCH)
            value = self._reference(own, shared, name)
        return value, branch

    def _reference(self, own: Path, shared: Path, name: str) -> str:
        for folder in dict.fromkeys((own, shared)):
            with suppress(OSError):
                return self._read_text(folder / name).strip()
        for line in self._read_text(shared / "packed-refs").splitlines():
            commit, _, packed = line.partition(" ")
            if packed == name:
                return commit
        return ""


def _state(path: str) -> _State:
    """Return what changes with the content of a file: None without one, and for a folder that it is one."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a fifth of the time of a path object
    except OSError:
        return None
    return (0, 0, 0) if stat.S_ISDIR(found.st_mode) else (found.st_ino, found.st_mtime_ns, found.st_size)
