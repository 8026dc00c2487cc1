"""Checkpoints on real servers of files, where a file is seen while it is written and a folder is one."""

from __future__ import annotations

import ftplib
import io
import os
import socket
import threading
from typing import IO, TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import checkpoint, object_store
from jupyter_smx.agent.errors import CHANGED, DONE, REFUSED, UNREACHABLE
from jupyter_smx.agent.stores import scan, upload
from jupyter_smx.testing.servers.file_servers import InProcessWorker
from jupyter_smx.testing.servers.object_storage import needs_storage

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

    from jupyter_smx.testing.servers.file_servers import FileServer

pytestmark = pytest.mark.heavy("stores")

WRITER = "job-algo-1"
LONG_AGO = 1_000.0
COUNTS = (
    "import os\n"
    "path = os.environ['SM_MODEL_DIR'].replace('/model', '/checkpoints/deep/count')\n"
    "count = int(open(path).read()) if os.path.exists(path) else 0\n"
    "print(count)\n"
    "os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    "open(path, 'w').write(str(count + 1))\n"
)


def kept(ftp: FileServer) -> dict[str, str]:
    top = ftp.folder / "kept"
    return {path.relative_to(top).as_posix(): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


def place(ftp: FileServer) -> str:
    return f"{ftp.address}/kept"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    path.write_text("the next one, " * 100)
    return path


def test_a_job_finds_what_the_one_before_it_left(agent: Agent, server: FileServer) -> None:
    for expected in range(3):
        record = agent.run(COUNTS, checkpoint=place(server))
        assert (record["text"], record["errors"], record["notes"]) == (f"{expected}\n", [], [])
    assert kept(server) == {"deep/count": "3"}


def test_a_line_that_is_cut_in_the_middle_leaves_the_last_whole_one(
    ftp: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ftp.put("kept/model.pt", "the last whole one")
    real = ftplib.FTP.storbinary

    def half(connection: ftplib.FTP, command: str, file: IO[bytes], *words: Any, **more: Any) -> None:
        real(connection, command, io.BytesIO(file.read(500)), *words, **more)
        raise ConnectionResetError

    row = [str(model), "model.pt", None]
    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "storbinary", half)
        ((how, _said),) = upload.upload(place(ftp), [row], WRITER)
    assert how == UNREACHABLE
    assert kept(ftp) == {"model.pt": "the last whole one"}
    written: list[str] = []

    def hear(connection: ftplib.FTP, command: str, *words: Any, **more: Any) -> str:
        written.append(command.rpartition("/")[2])
        return real(connection, command, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "storbinary", hear)
        assert upload.upload(place(ftp), [row], WRITER) == [(DONE, "")]
    assert kept(ftp) == {"model.pt": model.read_text()}
    assert [name[: len(scan.PART)] for name in written] == [scan.PART], "and nowhere else"


def test_of_a_file_that_changes_while_it_is_read_nothing_is_seen(
    ftp: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ftp.put("kept/deep/model.pt", "the last whole one")
    real = ftplib.FTP.storbinary

    def meanwhile(*words: Any, **more: Any) -> str:
        with model.open("a") as file:
            file.write("more")
        return real(*words, **more)

    row = [str(model), "deep/model.pt", scan.read_stamp(str(model))]
    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "storbinary", meanwhile)
        assert upload.upload(place(ftp), [row], WRITER) == [(CHANGED, "")]
    assert kept(ftp) == {"deep/model.pt": "the last whole one"}


def test_what_a_host_was_writing_when_it_was_killed_is_not_restored_and_goes_with_its_next_attempt(
    server: FileServer,
) -> None:
    left = {f"kept/deep/{scan.PART}{writer}-0123456789abcdef": "half" for writer in (WRITER, "other-algo-1")}
    for name, text in {"kept/deep/whole": "1", **left}.items():
        server.put(name, text)
    (row,) = upload.list_files(place(server), WRITER)["rows"]
    assert row[0] == "deep/whole"
    assert kept(server) == {"deep/whole": "1", f"deep/{scan.PART}other-algo-1-0123456789abcdef": "half"}


def test_a_place_that_is_not_there_yet_is_empty(server: FileServer) -> None:
    assert upload.list_files(f"{place(server)}/deep") == {"rows": []}


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    ftp: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept/a", "kept/deep/b"):
        ftp.put(name, "1")
    real, pauses = ftplib.FTP.mlsd, list[float]()

    def mlsd(line: ftplib.FTP, path: str = "", *words: Any) -> Any:
        if path.endswith("/deep"):
            raise ConnectionResetError
        return real(line, path, *words)

    monkeypatch.setattr(upload.retry.time, "sleep", pauses.append)
    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "mlsd", mlsd)
        assert list(upload.list_files(place(ftp))) == ["away"]
    assert pauses == [0.5, 1.0, 2.0]
    assert [name for name, _changed in upload.list_files(place(ftp))["rows"]] == ["a", "deep/b"]


def test_a_connection_that_the_server_has_ended_is_followed_by_another_one(
    ftp: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ftp.put("kept/a", "1")
    lines: list[ftplib.FTP] = []
    real = ftplib.FTP.connect

    def connect(line: ftplib.FTP, *words: Any, **more: Any) -> str:
        lines.append(line)
        return real(line, *words, **more)

    monkeypatch.setattr(ftplib.FTP, "connect", connect)
    monkeypatch.setattr(upload.retry.time, "sleep", lambda _seconds: pytest.fail("it is tried again"))
    for number in range(3):
        assert [row[0] for row in upload.list_files(place(ftp))["rows"]] == ["a", *["b"] * (number > 0)]
        assert upload.upload(place(ftp), [[str(model), "b", None]], WRITER) == [(DONE, "")]
        for line in lines:
            if line.sock is not None:
                line.sock.shutdown(socket.SHUT_RDWR)


def test_no_connection_outlives_its_wish_as_fsspec_would_have_it() -> None:
    needs_storage()
    import fsspec  # noqa: PLC0415 - only where it is installed

    made: list[object] = []

    class Line(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """As SFTP: a connection, of which fsspec keeps one for each thread."""

        protocol = "line"

        def __init__(self, **words: Any) -> None:
            super().__init__(**words)
            made.append(self)

        def ls(self, _path: str, detail: bool = True, **_words: Any) -> list[dict[str, Any]]:
            assert detail
            return []

    fsspec.register_implementation("line", Line, clobber=True)
    for count in range(1, 4):
        assert upload.list_files("line://host/x") == {"rows": []}
        assert len(made) == count
    upload.delete("line://host/x", ["a"])
    assert len(made) == 4


def test_what_ssh_does_not_know_it_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_storage()
    import fsspec  # noqa: PLC0415 - only where it is installed

    told: dict[str, Any] = {}

    class Ssh(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """As fsspec's SFTP, which hands all but the host to SSHClient.connect."""

        protocol = ("sftp", "ssh")

        def __init__(self, **words: Any) -> None:
            super().__init__()
            told.update(words)

        @staticmethod
        def _get_kwargs_from_urls(_url: str) -> dict[str, str]:
            return {"host": "host"}

    monkeypatch.setattr(fsspec, "get_filesystem_class", lambda _protocol: Ssh)
    for url in ("sftp://host/x", "ssh://host/x"):
        upload.filesystems.find_filesystem(url, fresh=True)
        assert told == {"host": "host"}


@pytest.mark.parametrize("connections", [0, 1, 2])
def test_a_server_that_takes_few_connections_gets_all_by_them(
    ftp: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    left = list(range(connections))
    real = ftplib.FTP.connect

    def connect(line: ftplib.FTP, *words: Any, **more: Any) -> str:
        try:
            left.pop()
        except IndexError:
            raise ConnectionRefusedError(111, "Connection refused") from None
        return real(line, *words, **more)

    rows = [[str(model), f"deep/{number}", None] for number in range(20)]
    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "connect", connect)
        found = upload.upload(place(ftp), rows, WRITER)
    assert {one.status for one in found} == {DONE if connections else UNREACHABLE}
    assert upload.upload(place(ftp), rows, WRITER) == [(DONE, "")] * 20


def test_a_place_of_no_kind_that_fsspec_knows_is_refused(model: Path) -> None:
    needs_storage()
    ((how, said),) = upload.upload("nosuch://x/y", [[str(model), "a", None]], WRITER)
    assert how == REFUSED
    assert "fsspec does not support 'nosuch'" in said


def test_a_file_becomes_a_folder_and_a_folder_becomes_a_file(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store.worker_client, "FsspecWorker", InProcessWorker)
    here = tmp_path / "checkpoints"
    (here / "b" / "deep").mkdir(parents=True)
    (here / "a").write_text("file")
    (here / "b" / "deep" / "c").write_text("inner")
    store = object_store.open_store(
        place(server), WRITER, object_store.worker_client.WorkerOptions(), what="checkpoint"
    )
    assert store is not None
    mirror = checkpoint.Mirror(str(here), store)
    mirror.sync(LONG_AGO, everything=True)
    assert (kept(server), mirror.errors) == ({"a": "file", "b/deep/c": "inner"}, {})
    (here / "a").unlink()
    (here / "a").mkdir()
    (here / "a" / "inner").write_text("now inside")
    (here / "b" / "deep" / "c").unlink()
    (here / "b" / "deep").rmdir()
    (here / "b").rmdir()
    (here / "b").write_text("now a file")
    for _look in range(2):
        mirror.sync(LONG_AGO, everything=True)
    assert (kept(server), mirror.errors) == ({"a/inner": "now inside", "b": "now a file"}, {})


def test_outputs_of_many_files_make_the_folder_that_is_missing_once(
    ftp: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server refuses to make what another connection has just made, and that is no refusal of the files."""
    names = [f"{number}.csv" for number in range(24)]
    for name in names:
        (tmp_path / name).write_text(name)
    making, together = threading.Semaphore(1), threading.Event()
    real = ftplib.FTP.mkd

    def mkd(line: ftplib.FTP, path: str) -> str:
        if not making.acquire(blocking=False):
            together.set()
            return real(line, path)
        together.wait(0.1)  # the time in which another connection may make the same folder
        try:
            return real(line, path)
        finally:
            making.release()

    with monkeypatch.context() as patch:
        patch.setattr(ftplib.FTP, "mkd", mkd)
        assert upload.put_files([[str(tmp_path / name), f"{place(ftp)}/new/deep/{name}"] for name in names]) == len(
            names
        )
    assert kept(ftp) == {f"new/deep/{name}": name for name in names}
    assert not together.is_set()


def test_what_is_gone_from_the_server_leaves_no_empty_file_here(tmp_path: Path) -> None:
    class Hasty:
        protocol = "sftp"

        def get_file(self, _there: str, here: str) -> None:
            """Open the file here before it asks for the one there, as paramiko does."""
            os.close(os.open(here, os.O_CREAT))
            raise FileNotFoundError(here)

    with pytest.raises(FileNotFoundError):
        upload._download_one(Hasty(), "top", ["model.pt", str(tmp_path / "model.pt"), None])
    assert list(tmp_path.iterdir()) == []
