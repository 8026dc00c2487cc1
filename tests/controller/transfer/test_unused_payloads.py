"""What kernels packed and no job needs: deleted after a day, and archives earlier when they are too many."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_smx.controller.transfer.unused_payloads import PackedFile, choose_files, delete_unused_payloads

NOW = 1_000_000.0
DAY = 86_400.0


def test_only_old_files_that_no_job_needs_are_deleted(tmp_path: Path) -> None:
    for name, age in (("old", 90_000), ("needed", 90_000), ("new", 1_000)):
        (tmp_path / f"{name}.pkl").touch()
        os.utime(tmp_path / f"{name}.pkl", (NOW - age, NOW - age))
    delete_unused_payloads(tmp_path, [str(tmp_path / "needed.pkl")], NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["needed.pkl", "new.pkl"]
    delete_unused_payloads(tmp_path / "missing", [], NOW)


def test_a_file_that_was_used_today_stays_although_it_was_written_long_ago(tmp_path: Path) -> None:
    for name, used in (("used", NOW - 60), ("unused", NOW - 2 * DAY)):
        (tmp_path / f"{name}.tar.gz").touch()
        os.utime(tmp_path / f"{name}.tar.gz", (used, NOW - 3 * DAY))
    delete_unused_payloads(tmp_path, [], NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["used.tar.gz"]


def packed(name: str, age: float, size: int, names: int = 1) -> PackedFile:
    return PackedFile(Path(name), NOW - age, size, names)


def test_of_too_many_archives_those_go_that_were_not_used_for_longest() -> None:
    files = [
        packed("c.tar.gz", 7_200, 40),
        packed("a.tar.gz", 700, 40),
        packed("d.tar.gz", 9_000, 1),
        packed("b.tar.gz", 3_600, 60),
        packed("x.pkl", 8_000, 1_000),
        packed("kept-by-a-job.tar.gz", 8_000, 1_000, names=2),
    ]
    assert [file.path.name for file in choose_files(files, NOW, 100)] == ["c.tar.gz", "d.tar.gz"]
    assert choose_files(files, NOW, 1_000) == []


def test_an_archive_of_this_moment_stays_whatever_its_size() -> None:
    assert choose_files([packed("a.tar.gz", 5, 1_000)], NOW, 100) == []
    assert [file.path.name for file in choose_files([packed("a.tar.gz", 601, 1_000)], NOW, 100)] == ["a.tar.gz"]
