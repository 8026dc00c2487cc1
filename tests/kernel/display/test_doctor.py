"""The page of ``doctor``: what it says of the files that were packed for jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.display.doctor import describe_sent_files

if TYPE_CHECKING:
    from pathlib import Path


def test_packed_files_are_counted_by_kind(tmp_path: Path) -> None:
    for name, size in {"a.tar.gz": 2048, "b.tar.gz": 1024, "c.pkl": 10, "d.packed.json": 5, "e.part": 7}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    said = "2 source folders, 3.0 KiB; 1 set of variables, 10 B; deleted a day after their last use"
    assert describe_sent_files(tmp_path) == said


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert describe_sent_files(tmp_path / "missing").startswith("0 source folders, 0 B; 0 sets of variables, 0 B;")
