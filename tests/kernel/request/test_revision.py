"""The commit of the notebook's folder, compared with what git itself says."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.request.origin import RevisionReader

if TYPE_CHECKING:
    from pathlib import Path

READER = RevisionReader()
"""One for all tests, as a kernel has one for all submissions."""
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    nowhere = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *words]
    told = subprocess.run(command, env={**clean, **who, **nowhere}, capture_output=True, text=True, check=True)
    return told.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.mark.processes
def test_the_commit_and_branch_are_those_that_git_names_also_from_an_inner_folder(tree: Path) -> None:
    inner = tree / "notebooks" / "deep"
    inner.mkdir(parents=True)
    found = READER.read(inner)
    assert found is not None
    assert (found.commit, found.branch, found.folder) == (git(tree, "rev-parse", "HEAD"), "main", str(tree))
    git(tree, "checkout", "-q", "-b", "topic/one")
    git(tree, "commit", "-q", "--allow-empty", "-m", "second")
    later = READER.read(tree)
    assert later is not None
    assert (later.commit, later.branch) == (git(tree, "rev-parse", "HEAD"), "topic/one")
    assert later.commit != found.commit


@pytest.mark.processes
def test_packed_references_a_detached_head_and_a_second_worktree_are_read(tree: Path, tmp_path: Path) -> None:
    commit = git(tree, "rev-parse", "HEAD")
    git(tree, "pack-refs", "--all")
    assert not (tree / ".git" / "refs" / "heads" / "main").exists()
    assert READER.read(tree).commit == commit  # type: ignore[union-attr]
    second = tmp_path / "second"
    git(tree, "worktree", "add", "-q", "-b", "side", str(second))
    git(second, "commit", "-q", "--allow-empty", "-m", "aside")
    found = READER.read(second)
    assert found is not None
    assert (found.commit, found.branch, found.folder) == (git(second, "rev-parse", "HEAD"), "side", str(second))
    git(tree, "checkout", "-q", "--detach")
    detached = READER.read(tree)
    assert detached is not None
    assert (detached.commit, detached.branch) == (commit, "")


@pytest.mark.processes
def test_a_submodule_has_a_commit_of_its_own(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    git(other, "commit", "-q", "--allow-empty", "-m", "theirs")
    git(tree, "submodule", "--quiet", "add", str(other), "part")
    found = READER.read(tree / "part")
    assert found is not None
    assert found.commit == git(other, "rev-parse", "HEAD") != git(tree, "rev-parse", "HEAD")


@pytest.mark.processes
def test_outside_of_a_work_tree_before_a_commit_and_beside_a_strange_file_there_is_none(tmp_path: Path) -> None:
    assert READER.read(tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "main")
    assert READER.read(tmp_path) is None
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / ".git").write_text("what is this?")
    assert READER.read(strange) is None
    (strange / ".git").write_bytes(b"\xff\xfe")
    assert READER.read(strange) is None


@pytest.mark.processes
def test_git_is_read_again_only_after_one_of_its_files_changed(tree: Path) -> None:
    first = READER.read(tree)
    assert READER.read(tree) is first is not None
    git(tree, "pack-refs", "--all")
    packed = READER.read(tree)
    assert packed == first
    assert READER.read(tree) is packed
    for message in ("beside the packed one", "in place of the last one"):
        git(tree, "commit", "-q", "--allow-empty", "-m", message)
        assert READER.read(tree).commit == git(tree, "rev-parse", "HEAD") != first.commit  # type: ignore[union-attr]
    inner = tree / "inner"
    inner.mkdir()
    assert READER.read(inner).folder == str(tree)  # type: ignore[union-attr]
    git(inner, "init", "-q", "-b", "main")
    assert READER.read(inner) is None
