"""The origin of a request: the notebook, its cell, and the git commit, read from git's own files."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.results.provenance import Revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Cell ids that nbformat allows; other front ends store other values in the same place."""

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


def revision_of(folder: Path) -> Revision | None:
    """Return the commit of the work tree around ``folder``; None outside of one, or before its first commit.

    Changes since the commit are not checked: that would read all files.
    """
    for top in (folder, *folder.parents):
        marker = top / ".git"
        if marker.exists():
            return _read_revision(top, marker)
    return None


def _read_revision(top: Path, marker: Path) -> Revision | None:
    try:
        own = _git_dir(marker)
        head = (own / "HEAD").read_text(encoding="utf-8").strip()
        commit, branch = _resolve_head(own, _common_dir(own), head)
    except (OSError, UnicodeDecodeError):
        return None
    if not _COMMIT.fullmatch(commit):
        return None
    return Revision(commit=commit, branch=branch, folder=str(top))


def _git_dir(marker: Path) -> Path:
    """Return the folder of git's files: ``.git`` itself, or its target in a worktree or a submodule."""
    if marker.is_dir():
        return marker
    said = marker.read_text(encoding="utf-8").strip()
    return marker.parent / said.removeprefix(_POINTER).strip() if said.startswith(_POINTER) else marker


def _common_dir(own: Path) -> Path:
    """Return the folder that all worktrees of a repository share, which has the branches."""
    try:
        return own / (own / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return own


def _resolve_head(own: Path, shared: Path, head: str) -> tuple[str, str]:
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
