"""Files of a copy that a job left unchanged: they are in the next copy, and no file that it touched is."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.code import reuse_files, sourcedir

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {name: f"# {name}\n" for name in ("top.py", "pkg/a.py", "pkg/b.py", "pkg/deep/c.py")}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class Host:
    """Give copies to jobs and make the next one, as an idle host does; ``job`` is the folder of the job's code."""

    def __init__(self, folder: Path) -> None:
        self.source = packed(folder, FILES)
        self.trees, self.trash, self.job = folder / "code", folder / "trash", folder / "job"
        self.trash.mkdir()
        self.home = Path(sourcedir.home_of(self.source, str(self.trees)))

    def start(self) -> dict[str, int]:
        """Give a job its copy; return the inode of each file."""
        sourcedir.copy_tree(self.source, str(self.trees), str(self.job))
        wait_for_tick(self.job)
        return inodes(self.job)

    def end(self) -> None:
        """Move what the job left to the trash, entry by entry, and make the next copy."""
        batch = self.trash / "job-id"
        batch.mkdir()
        for number, path in enumerate(sorted(self.job.iterdir())):
            path.rename(batch / str(number))
        self.job.rmdir()
        sourcedir.make_spare_copy(str(self.trees))
        shutil.rmtree(batch)


def wait_for_tick(folder: Path) -> None:
    """Wait until the clock of the disk has gone on since files of a folder were made, which takes milliseconds."""
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*"))
    probe = folder.parent / "probe"
    while not probe.exists() or probe.stat().st_ctime_ns <= newest:
        probe.write_text("")


def inodes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test follow without a pause; the decision about times has a test of its own."""
    monkeypatch.setattr(reuse_files, "_TICK", -1_000_000_000)


def start_with_spare_copy(host: Host) -> dict[str, int]:
    host.start()
    host.end()
    return host.start()


def test_the_next_copy_has_the_files_that_a_job_left_alone(host: Host) -> None:
    before = start_with_spare_copy(host)
    host.end()
    after = host.start()
    assert contents(host.job) == FILES
    below = {name for name in FILES if "/" in name}
    assert {name for name in FILES if before[name] == after[name]} == below, "what was moved alone looks changed"


def test_a_series_of_jobs_reuses_them_again(host: Host) -> None:
    first = start_with_spare_copy(host)
    for _ in range(3):
        host.end()
        assert host.start()["pkg/a.py"] == first["pkg/a.py"]


def write_secretly(path: Path) -> None:
    before = path.stat()
    with path.open("r+") as file:
        file.write("bad")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "in place, with its time set back": write_secretly,
    "append": lambda path: path.open("a").write("bad"),
    "truncate": lambda path: os.truncate(path, 0),
    "delete": lambda path: path.unlink(),
    "replace": lambda path: (path.with_name("x").write_text("bad"), path.with_name("x").replace(path)),
    "another file's name": lambda path: path.with_name("b.py").replace(path),
    "mode": lambda path: path.chmod(0o600),
    "a second name": lambda path: os.link(path, path.with_name("second")),
    "a link in its place": lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    "a folder in its place": lambda path: (path.unlink(), path.mkdir(), (path / "b.py").write_text("bad")),
    "new files": lambda path: path.with_name("new.py").write_text("bad"),
    "a folder less": lambda path: shutil.rmtree(path.parent),
    "a link for its folder": lambda path: (path.parent.rename(path.parent.with_name("q")), path.parent.symlink_to("q")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_change_of_a_job_is_in_a_later_copy(host: Host, change: Callable[[Path], Any]) -> None:
    start_with_spare_copy(host)
    change(host.job / "pkg" / "a.py")
    host.end()
    host.start()
    assert contents(host.job) == FILES
    assert not [path for path in host.job.rglob("*") if path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in host.job.rglob("*.py")} == {0o644}
    assert {path.stat().st_nlink for path in host.job.rglob("*.py")} == {1}
    host.end()
    assert contents(host.home / "ready") == FILES


def test_a_file_with_a_second_name_elsewhere_is_not_taken(host: Host, tmp_path: Path) -> None:
    start_with_spare_copy(host)
    os.link(host.job / "pkg" / "a.py", tmp_path / "kept")
    host.end()
    (tmp_path / "kept").write_text("bad")
    assert contents(host.home / "ready") == FILES


def test_an_index_that_is_half_written_is_no_obstacle(host: Host) -> None:
    start_with_spare_copy(host)
    (host.home / "taken.json").write_text("{")
    host.end()
    assert contents(host.home / "ready") == FILES


def test_a_file_that_was_made_just_before_the_job_began_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    began = time.time_ns() // 1000 * 1000 + 1
    ages = {"old": 3_000_000_000, "young": 500_000_000, "new": 50_000_000}
    rows = {name: [number, 5, 0, began - age] for number, (name, age) in enumerate(ages.items())}
    assert [name for name, _ in reuse_files.unchanged_names(rows, began).values()] == ["old", "young"]
    coarse = {name: [*row[:3], row[3] // 10**9 * 10**9] for name, row in rows.items()}
    assert [name for name, _ in reuse_files.unchanged_names(coarse, began).values()] == ["old"]


def test_a_job_that_left_very_many_files_is_not_searched_to_the_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with_spare_copy(host)
    monkeypatch.setattr(reuse_files, "_MAX_ENTRIES", 3)
    host.end()
    host.start()
    assert contents(host.job) == FILES
