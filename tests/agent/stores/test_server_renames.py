"""Servers whose rename does not replace an existing file, as is common.

The servers are real ones that would replace it; the tests substitute the answers that other servers give, as their
documentation and the protocols define them (``550``, ``SSH_FX_FAILURE``). No such server was tried.
"""

from __future__ import annotations

import ftplib
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.errors import DONE, REFUSED, UNREACHABLE
from jupyter_smx.agent.stores import sftp_ftp, upload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.testing.servers.file_servers import FileServer

WRITER = "job-algo-1"


def place(server: FileServer) -> str:
    return f"{server.address}/kept"


def kept(server: FileServer) -> dict[str, str]:
    top = server.folder / "kept"
    return {path.relative_to(top).as_posix(): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    path.write_text("the next one")
    return path


def no_rename_replaces(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a server's rename replace no file. Return a function that adds a suffix of names that cannot be renamed."""
    bad: list[str] = []

    def check(old: str, new: str) -> None:
        if any(old.endswith(end) for end in bad) or (server.folder / new.lstrip("/")).exists():
            raise ftplib.error_perm("550 File exists") if server.address.startswith("ftp") else OSError("Failure")  # noqa: S321 - what it says

    if server.address.startswith("ftp"):
        real = ftplib.FTP.rename

        def rename(line: ftplib.FTP, old: str, new: str) -> str:
            check(old, new)
            return real(line, old, new)

        monkeypatch.setattr(ftplib.FTP, "rename", rename)
    else:
        client = pytest.importorskip("paramiko").SFTPClient
        plain = client.rename

        def renamed(line: Any, old: str, new: str) -> None:
            check(old, new)
            plain(line, old, new)

        def posix_rename(_line: Any, _old: str, _new: str) -> None:
            raise OSError("Operation unsupported")

        monkeypatch.setattr(client, "rename", renamed)
        monkeypatch.setattr(client, "posix_rename", posix_rename)
    return bad.append


def test_a_server_whose_rename_replaces_nothing_has_the_new_file_all_the_same(
    server: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_rename_replaces(server, monkeypatch)
    for text in ("1", "2", "3"):
        model.write_text(text)
        row = [str(model), "deep/model.pt", None]
        assert upload.upload(place(server), [row], WRITER) == [(DONE, "")]
        assert kept(server) == {"deep/model.pt": text}


def test_and_keeps_the_last_whole_one_where_the_new_one_cannot_take_its_place(
    server: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("kept/model.pt", "the last whole one")
    mark = sftp_ftp.temporary_name("model.pt", WRITER)
    no_rename_replaces(server, monkeypatch)(mark)
    ((how, _said),) = upload.upload(place(server), [[str(model), "model.pt", None]], WRITER)
    assert how in (REFUSED, UNREACHABLE)
    assert kept(server) == {"model.pt": "the last whole one"}


def test_what_stands_aside_because_its_follower_was_killed_comes_back(server: FileServer) -> None:
    aside = sftp_ftp.temporary_name("model.pt", WRITER)
    server.put(f"kept/deep/{aside}", "the next one, whole or not")
    server.put(f"kept/deep/{aside}-before-model.pt", "the last whole one")
    (row,) = upload.list_files(place(server), WRITER)["rows"]
    assert row[0] == "deep/model.pt"
    assert kept(server) == {"deep/model.pt": "the last whole one"}


@pytest.mark.parametrize("writer", [WRITER, "fix-before-model-algo-1"])
def test_a_writer_takes_away_what_itself_wrote_aside_whatever_it_is_called_and_nothing_of_others(
    server: FileServer, writer: str
) -> None:
    others = [sftp_ftp.temporary_name("model.pt", f"{writer}{more}") for more in ("-table", "0", "-before-table")]
    for aside in (sftp_ftp.temporary_name("model.pt", writer), *others):
        server.put(f"kept/{aside}", "half")
    assert upload.list_files(place(server), writer)["rows"] == []
    assert kept(server) == dict.fromkeys(others, "half")
