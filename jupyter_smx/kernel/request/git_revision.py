"""The git commit that a folder's work tree is at, read from git's own files: a process would cost milliseconds."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.model.results.provenance import Revision

if TYPE_CHECKING:
    from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_POINTER = "gitdir:"
_REF = "ref:"
_BRANCH = "refs/heads/"
_MAX_SYMREFS = 5
"""References that lead to references, at most."""


def revision_of(folder: Path) -> Revision | None:
    """Give the commit of the work tree around ``folder``; None outside of one, or before its first commit.

    Whether files were changed since the commit is not looked at: that would read all of them.
    """
    for top in (folder, *folder.parents):
        marker = top / ".git"
        if marker.exists():
            return _read(top, marker)
    return None


def _read(top: Path, marker: Path) -> Revision | None:
    try:
        own = _git_dir(marker)
        head = (own / "HEAD").read_text(encoding="utf-8").strip()
        commit, branch = _resolve(own, _common_dir(own), head)
    except (OSError, UnicodeDecodeError):
        return None
    if not _COMMIT.fullmatch(commit):
        return None
    return Revision(commit=commit, branch=branch, folder=str(top))


def _git_dir(marker: Path) -> Path:
    """Give the folder of git's files: ``.git`` itself, or where that file points in a worktree or a submodule."""
    if marker.is_dir():
        return marker
    said = marker.read_text(encoding="utf-8").strip()
    return marker.parent / said.removeprefix(_POINTER).strip() if said.startswith(_POINTER) else marker


def _common_dir(own: Path) -> Path:
    """Give the folder that all worktrees of a repository share; branches are there."""
    try:
        return own / (own / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return own


def _resolve(own: Path, shared: Path, head: str) -> tuple[str, str]:
    branch, value = "", head
    for _ in range(_MAX_SYMREFS):
        if not value.startswith(_REF):
            break
        name = value.removeprefix(_REF).strip()
        branch = branch or name.removeprefix(_BRANCH)
        value = _reference(own, shared, name)
    return value, branch


def _reference(own: Path, shared: Path, name: str) -> str:
    for folder in dict.fromkeys((own, shared)):
        with suppress(OSError):
            return (folder / name).read_text(encoding="utf-8").strip()
    for line in (shared / "packed-refs").read_text(encoding="utf-8").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return ""
