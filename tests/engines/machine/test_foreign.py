"""Files in a folder that a job writes to: what it puts in their place is neither followed nor waited for."""

from __future__ import annotations

import errno
import io
import os
import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines import untrusted_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = b"nobody's but the controller's"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Give a folder with a file in a folder, beside a file that no job may see."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_bytes(SECRET)
    (tmp_path / "host/inner").mkdir(parents=True)
    (tmp_path / "host/inner/file").write_bytes(b"mine")
    return tmp_path / "host"


def a_link_to_a_file(top: Path) -> None:
    (top / "inner/file").unlink()
    (top / "inner/file").symlink_to(top.parent / "secret/file")


def a_link_to_a_folder(top: Path) -> None:
    (top / "inner").rename(top / "moved")
    (top / "inner").symlink_to(top.parent / "secret")


def a_link_for_the_top(top: Path) -> None:
    top.rename(top.with_name("moved"))
    (top.parent / "other/inner").mkdir(parents=True)
    (top.parent / "other/inner/file").write_bytes(SECRET)
    top.symlink_to(top.parent / "other")


def a_pipe(top: Path) -> None:
    (top / "inner/file").unlink()
    os.mkfifo(top / "inner/file")


def a_pipe_for_a_folder(top: Path) -> None:
    (top / "inner").rename(top / "moved")
    os.mkfifo(top / "inner")


def a_folder(top: Path) -> None:
    (top / "inner/file").unlink()
    (top / "inner/file").mkdir()


def a_socket(top: Path) -> None:
    (top / "inner/file").unlink()
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(os.fspath(top / "inner/file"))


def a_link_to_itself(top: Path) -> None:
    (top / "inner/file").unlink()
    (top / "inner/file").symlink_to("file")


PUT_THERE = (
    a_link_to_a_file,
    a_link_to_a_folder,
    a_link_for_the_top,
    a_link_to_itself,
    a_pipe,
    a_pipe_for_a_folder,
    a_folder,
    a_socket,
)


def test_a_file_is_read_up_to_its_limit(top: Path) -> None:
    assert untrusted_files.read(top, "inner/file", 4) == b"mine"
    with pytest.raises(OSError, match="too large"):
        untrusted_files.read(top, "inner/file", 3)


@pytest.mark.parametrize("put", PUT_THERE)
def test_what_is_put_in_the_place_of_a_file_is_no_file_and_nobody_waits_for_it(
    top: Path, put: Callable[[Path], None]
) -> None:
    put(top)
    with pytest.raises(OSError), untrusted_files.open_file(top, "inner/file"):  # noqa: PT011 - the system's words differ
        pass
    assert not untrusted_files.is_absent(top, "inner/file")


def test_no_descriptor_stays_open(top: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))  # noqa: PTH112, PTH208

    before = count()
    for put in (a_pipe, a_link_to_a_folder):
        assert untrusted_files.read(top, "inner/file", 4) == b"mine"
        put(top)
        with pytest.raises(OSError), untrusted_files.open_file(top, "inner/file"):  # noqa: PT011
            pass
        (top / "inner").unlink() if (top / "inner").is_symlink() else (top / "inner/file").unlink()
        (top / "inner").mkdir(exist_ok=True)
        (top / "inner/file").write_bytes(b"mine")
    assert count() == before


@pytest.mark.parametrize("name", ["", "/", "..", "../secret/file", "inner/../../secret/file", "/etc/passwd", "a\0b"])
def test_a_name_that_leads_out_names_nothing(top: Path, name: str) -> None:
    with pytest.raises(OSError), untrusted_files.open_file(top, name):  # noqa: PT011
        pass


def test_only_a_clear_no_says_that_nothing_is_there(top: Path) -> None:
    assert untrusted_files.is_absent(top, "inner/other")
    assert untrusted_files.is_absent(top, "other/file")
    assert not untrusted_files.is_absent(top, "inner/file")
    assert not untrusted_files.is_absent(top, "inner/file/below")


def test_a_file_gets_a_second_name_where_that_can_be(top: Path, tmp_path: Path) -> None:
    with untrusted_files.open_file(top, "inner/file") as found:
        found.link_or_copy(tmp_path / "home")
    assert (tmp_path / "home").samefile(top / "inner/file")


@pytest.mark.skipif(os.getuid() != 0, reason="only root takes files over")
@pytest.mark.parametrize("kept", [False, True], ids=["linked", "copied"])
def test_what_comes_home_is_ours_and_its_first_owner_cannot_change_it(top: Path, tmp_path: Path, *, kept: bool) -> None:
    os.chown(top / "inner/file", 60_600, 60_600)
    if kept:
        os.link(top / "inner/file", top / "kept")
    with untrusted_files.open_file(top, "inner/file") as found:
        found.link_or_copy(tmp_path / "home")
    home, theirs = (tmp_path / "home").stat(), (top / "inner/file").stat()
    assert (home.st_uid, home.st_gid) == (os.getuid(), os.getgid())
    assert theirs.st_uid == (60_600 if kept else os.getuid())


@pytest.mark.parametrize("where", ["kept", "inner/kept", "../other"])
def test_a_file_of_which_the_job_kept_another_name_comes_home_as_a_copy(top: Path, tmp_path: Path, where: str) -> None:
    os.link(top / "inner/file", top / where)
    with untrusted_files.open_file(top, "inner/file") as found:
        found.link_or_copy(tmp_path / "home")
    (top / where).write_bytes(b"changed by the next job")
    assert (tmp_path / "home").read_bytes() == b"mine"
    assert (tmp_path / "home").stat().st_nlink == 1
    assert (top / "inner/file").samefile(top / where)


@pytest.mark.parametrize("put", [a_link_to_a_file, a_pipe, a_folder])
def test_what_takes_its_place_when_it_is_open_already_is_not_what_comes_home(
    top: Path, tmp_path: Path, put: Callable[[Path], None]
) -> None:
    with untrusted_files.open_file(top, "inner/file") as found:
        put(top)
        found.link_or_copy(tmp_path / "home")
    assert (tmp_path / "home").read_bytes() == b"mine"
    assert not (tmp_path / "home").is_symlink()


def test_what_cannot_be_read_is_told_from_what_cannot_be_written(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of these two disks one is full, say, and the other one is broken."""

    class Broken(io.FileIO):
        def read(self, _most: int = -1) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    (top / "inner/other").hardlink_to(top / "inner/file")  # a third name, so that it is copied
    with untrusted_files.open_file(top, "inner/file") as found:
        monkeypatch.setattr(found, "file", Broken(top / "inner/file"))
        with pytest.raises(untrusted_files.UnreadableError, match="Input/output error"):
            found.link_or_copy(tmp_path / "home")
        found.file.close()
    with untrusted_files.open_file(top, "inner/file") as found, pytest.raises(NotADirectoryError):
        found.link_or_copy(top / "inner/file" / "below a file")
