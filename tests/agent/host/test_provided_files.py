"""Files that a controller sends to a host: kept by content, whole or not at all, and never outside their folder."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.host import provided_files
from jupyter_smx.agent.host.provided_files import ProvidedFiles, ProvisionError

if TYPE_CHECKING:
    from pathlib import Path

ITEM = "a" * 64


@pytest.fixture
def provided(tmp_path: Path) -> ProvidedFiles:
    return ProvidedFiles(str(tmp_path / "provided"), "/shown")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entry(path: str, kind: str = "file", content: bytes = b"", **fields: Any) -> Any:
    known = {"sha256": digest(content) if kind == "file" else "", "target": "", "executable": False, "mtime_ns": 10**9}
    return {"path": path, "kind": kind, **known, **fields}


def put(provided: ProvidedFiles, content: bytes, piece: int = 4) -> None:
    for offset in range(0, max(1, len(content)), piece):
        provided.put(digest(content), offset, len(content), content[offset : offset + piece])


def test_a_file_is_there_when_its_last_bytes_came(provided: ProvidedFiles) -> None:
    name = digest(b"content")
    provided.put(name, 0, 7, b"con")
    assert provided.have([], [name], only=False)["partial"] == {name: 3}
    assert provided.have([], [name], only=False)["files"] == []
    provided.put(name, 3, 7, b"tent")
    assert provided.have([], [name], only=False)["files"] == [name]
    assert provided.put(name, 0, 7, b"con") == 7, "what is there is not taken again"


def test_bytes_of_another_digest_are_no_file(provided: ProvidedFiles) -> None:
    with pytest.raises(ProvisionError, match="has changed"):
        provided.put(digest(b"wanted"), 0, 5, b"other")
    assert provided.have([], [digest(b"wanted")], only=False)["files"] == []
    put(provided, b"wanted")
    assert provided.have([], [digest(b"wanted")], only=False)["files"] == [digest(b"wanted")]


def test_a_gap_is_refused_and_the_rest_may_follow(provided: ProvidedFiles) -> None:
    provided.put(digest(b"content"), 0, 7, b"con")
    with pytest.raises(ProvisionError, match="does not follow"):
        provided.put(digest(b"content"), 5, 7, b"nt")
    provided.put(digest(b"content"), 3, 7, b"tent")


def test_a_folder_is_made_of_files_links_and_folders(provided: ProvidedFiles, tmp_path: Path) -> None:
    put(provided, b"one")
    put(provided, b"")
    parts = [
        entry("", "folder"),
        entry("deep", "folder"),
        entry("deep/one", content=b"one", executable=True),
        entry("empty"),
        entry("lost", "link", target="nowhere"),
    ]
    assert provided.place(ITEM, "data", parts) == f"/shown/items/{ITEM}/data"
    top = tmp_path / "provided" / "items" / ITEM / "data"
    assert (top / "deep" / "one").read_bytes() == b"one"
    assert os.access(top / "deep" / "one", os.X_OK)
    assert ((top / "empty").stat().st_size, (top / "lost").readlink().name) == (0, "nowhere")
    assert top.stat().st_mtime == 1.0
    assert provided.have([ITEM], [], only=False)["items"] == [ITEM]


def test_an_item_without_its_files_is_refused_and_not_there(provided: ProvidedFiles) -> None:
    with pytest.raises(ProvisionError, match="send it first"):
        provided.place(ITEM, "data", [entry("", content=b"missing")])
    assert provided.have([ITEM], [], only=False)["items"] == []


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "in/../../out", "nul\0"])
def test_no_entry_leads_out_of_its_item(provided: ProvidedFiles, path: str) -> None:
    put(provided, b"x")
    with pytest.raises(ValueError, match="leads out"):
        provided.place(ITEM, "data", [entry("", "folder"), entry(path, content=b"x")])
    with pytest.raises(ValueError, match="leads out"):
        provided.place(ITEM, path, [entry("", content=b"x")])


def test_nothing_is_put_where_a_link_leads(provided: ProvidedFiles, tmp_path: Path) -> None:
    put(provided, b"x")
    outside = tmp_path / "outside"
    outside.mkdir()
    parts = [entry("", "folder"), entry("way", "link", target=str(outside)), entry("way/file", content=b"x")]
    with pytest.raises((OSError, ProvisionError)):
        provided.place(ITEM, "data", parts)
    assert not list(outside.iterdir())


def test_a_name_that_is_no_digest_is_refused(provided: ProvidedFiles) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        provided.put("../" + "a" * 61, 0, 1, b"x")
    with pytest.raises(ValueError, match="SHA-256"):
        provided.have(["x"], [], only=True)


def test_what_the_next_job_does_not_need_can_be_deleted(provided: ProvidedFiles) -> None:
    put(provided, b"old")
    put(provided, b"new")
    provided.place(ITEM, "data", [entry("", content=b"old")])
    found = provided.have([], [digest(b"new"), digest(b"old")][:1], only=True)
    assert (found["items"], found["files"]) == ([], [digest(b"new")])
    assert provided.have([ITEM], [digest(b"old")], only=False)["files"] == []


def test_a_write_that_failed_half_way_leaves_no_bytes_behind(provided: ProvidedFiles, tmp_path: Path) -> None:
    name = digest(b"content")
    provided.put(name, 0, 7, b"con")
    with (tmp_path / "provided" / "partial" / name).open("ab") as file:
        file.write(b"te")  # as a disk does that is full after two bytes of the next piece
    provided.put(name, 3, 7, b"tent")
    assert (tmp_path / "provided" / "files" / name).read_bytes() == b"content"


class FullDisk(io.FileIO):
    """A file on a disk that takes two more bytes."""

    def write(self, data: Any) -> int:
        super().write(data[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_of_a_file_that_finds_no_room_nothing_stays_and_it_is_sent_from_its_beginning(
    provided: ProvidedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = digest(b"content")
    provided.put(name, 0, 7, b"con")
    with monkeypatch.context() as patch:
        patch.setattr(provided_files, "open", FullDisk, raising=False)
        with pytest.raises(OSError, match="No space left"):
            provided.put(name, 3, 7, b"ten")
    assert [*(tmp_path / "provided" / "partial").iterdir()] == []
    with pytest.raises(ProvisionError, match="does not follow the 0 bytes"):
        provided.put(name, 6, 7, b"t")  # was under way already
    assert provided.have([], [name], only=False)["partial"] == {name: 0}
    put(provided, b"content")
    assert (tmp_path / "provided" / "files" / name).read_bytes() == b"content"


def test_of_an_item_that_finds_no_room_nothing_stays(
    provided: ProvidedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(provided, b"one")
    parts = [entry("", "folder"), entry("tool", content=b"one", executable=True), entry("deep", "folder")]

    def fill(*_times: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", fill)
        with pytest.raises(OSError, match="No space left"):
            provided.place(ITEM, "data", parts)
    assert [*(tmp_path / "provided" / "partial").iterdir()] == []
    assert provided.changed_file() == "", "no job has seen the item"
    provided.place(ITEM, "data", parts)
    assert (tmp_path / "provided" / "items" / ITEM / "data" / "tool").read_bytes() == b"one"


def test_an_item_of_equal_content_changes_no_other_one(provided: ProvidedFiles, tmp_path: Path) -> None:
    put(provided, b"x")
    provided.place(ITEM, "data", [entry("", content=b"x")])
    provided.place("b" * 64, "tool", [entry("", content=b"x", executable=True, mtime_ns=5 * 10**9)])
    first, second = (tmp_path / "provided" / "items" / name for name in (f"{ITEM}/data", "b" * 64 + "/tool"))
    assert (first.stat().st_mtime, second.stat().st_mtime) == (1.0, 5.0)
    assert (first.stat().st_mode & 0o777, second.stat().st_mode & 0o777) == (0o444, 0o555)


def test_a_file_that_a_job_changed_is_named(provided: ProvidedFiles, tmp_path: Path) -> None:
    put(provided, b"x")
    provided.place(ITEM, "data", [entry("", content=b"x")])
    provided.place("b" * 64, "tool", [entry("", content=b"x", executable=True)])
    assert provided.changed_file() == ""
    path = tmp_path / "provided" / "items" / ITEM / "data"
    path.chmod(0o644)
    path.write_bytes(b"spoilt")
    assert provided.changed_file().endswith(digest(b"x"))
