"""Files of the contract are written whole, also where the system takes them in pieces or they have no folder yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.forkserver.contract_writer import DISK_WRITER, NULL_WRITER

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_written_anew_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.json"
    DISK_WRITER.write(str(path), "a longer text")
    DISK_WRITER.write(str(path), "Größe 日本")
    assert path.read_text(encoding="utf-8") == "Größe 日本"
    DISK_WRITER.write(str(path), "")
    assert path.read_bytes() == b""


def test_it_has_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        DISK_WRITER.write(str(tmp_path / "a"), "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_what_the_system_takes_in_pieces_is_whole_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))
    DISK_WRITER.write(str(tmp_path / "a"), "more than three")
    assert (tmp_path / "a").read_text() == "more than three"


def test_what_the_system_refuses_is_raised(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        DISK_WRITER.write("/dev/full", "x")
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError):
        DISK_WRITER.write(str(tmp_path / "a" / "b"), "x")


def test_a_rehearsal_writes_nothing(tmp_path: Path) -> None:
    NULL_WRITER.write(str(tmp_path / "a" / "b"), "x")
    assert list(tmp_path.iterdir()) == []


def test_what_is_thrown_away_makes_no_file_where_the_device_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "devnull", str(tmp_path / "null"))
    with pytest.raises(FileNotFoundError):
        NULL_WRITER.write("any", "x")
    assert not [*tmp_path.iterdir()]
