"""Packages that change on disk between two jobs of a host: the later job runs what is there, and says what changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.code import packages
from jupyter_smx.agent.forkserver.module_watch import ModuleWatch
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

SEE = "import sys\nthere = 'grown' in sys.modules\nimport grown.part\nprint(there, grown.VALUE, grown.part.VALUE)\n"
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files are watched by inotify")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give a folder of packages with one that has two modules and metadata."""
    folder = tmp_path / "site-packages"
    write(folder / "grown" / "__init__.py", "VALUE = 1\n")
    write(folder / "grown" / "part.py", "VALUE = 1\n")
    write(folder / "grown-1.0.dist-info" / "METADATA", "Name: grown\nVersion: 1.0\n")
    write(folder / "other.py", "VALUE = 1\n")
    return folder


@pytest.fixture
def warm(start_agent: Callable[..., Agent], site: Path) -> Agent:
    agent = start_agent(environment={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"})
    agent.client.ask("preload", modules=["grown.part"])
    assert agent.client.event("preload")["loaded"] == ["grown.part"]
    assert said(agent.run(SEE)) == (["True", "1", "1"], [])
    return agent


def said(record: dict[str, Any]) -> tuple[list[str], list[str]]:
    return record["text"].split(), record["missing_preloads"]["reasons"]


REASON = "Not preloaded: grown has changed on disk since, so this job imported all packages anew."


def replace_file(site: Path) -> None:
    write(site / "grown" / "new.py", "VALUE = 2\n")
    (site / "grown" / "new.py").replace(site / "grown" / "part.py")


def write_in_place(site: Path) -> None:
    with (site / "grown" / "part.py").open("r+") as file:
        file.write("VALUE = 2\n")


@on_linux
@pytest.mark.parametrize("edit", [replace_file, write_in_place])
def test_a_file_that_is_edited_is_imported_again(warm: Agent, site: Path, edit: Callable[[Path], None]) -> None:
    edit(site)
    assert said(warm.run(SEE)) == (["False", "1", "2"], [REASON])
    warm.client.event("preload")
    eventually_blocking(lambda: said(warm.run(SEE)) == (["True", "1", "2"], []), "the new one is preloaded")


def test_an_installation_of_the_same_version_is_imported_again(warm: Agent, site: Path) -> None:
    for path in sorted((site / "grown-1.0.dist-info").iterdir()):
        path.unlink()
    (site / "grown-1.0.dist-info").rmdir()
    write(site / "grown-1.0.dist-info" / "METADATA", "Name: grown\nVersion: 1.0\n")
    assert said(warm.run(SEE)) == (["False", "1", "1"], [REASON])


@on_linux
def test_files_that_were_not_imported_cost_nothing(warm: Agent, site: Path) -> None:
    write(site / "grown" / "data.json", "{}")
    write(site / "grown" / "unused.py", "VALUE = 2\n")
    write(site / "other.py", "VALUE = 2\n")
    os.utime(site / "grown" / "part.py")
    assert said(warm.run(SEE)) == (["True", "1", "1"], [])


@on_linux
def test_a_project_of_the_users_own_is_never_preloaded(start_agent: Callable[..., Agent], tmp_path: Path) -> None:
    write(tmp_path / "project" / "mine.py", "VALUE = 1\n")
    agent = start_agent(environment={"PYTHONPATH": str(tmp_path / "project"), "PYTHONDONTWRITEBYTECODE": "1"})
    agent.client.ask("preload", modules=["mine"])
    assert list(agent.client.event("preload")["failed"]) == ["mine"]
    for value in (1, 22):
        write(tmp_path / "project" / "mine.py", f"VALUE = {value}\n")
        assert agent.run("import mine\nprint(mine.VALUE)")["text"] == f"{value}\n"


@on_linux
def test_more_changes_than_the_kernel_remembers_are_changes_of_all(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    watch = ModuleWatch({os.fspath(tmp_path): {"a.py": "a", "b.py": "b"}})
    try:
        for number in range(limit // 2 + 8):  # each makes two events of different kinds
            (tmp_path / f"other{number}").touch()
            (tmp_path / f"other{number}").unlink()
        assert watch.changed() == ["a", "b"]
    finally:
        watch.close()
    watch.close()
    assert watch.changed() == ["a", "b"]


def test_a_snapshot_names_what_came_and_went(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [os.fspath(site)])
    snapshot = packages.InstallSnapshot()
    assert snapshot.changed() == []
    write(site / "single.py", "")
    assert snapshot.changed() == []
    write(site / "came-2.0.dist-info" / "METADATA", "")
    (site / "grown-1.0.dist-info").rename(site / "grown-1.1.dist-info")
    assert snapshot.changed() == ["came", "grown"]
