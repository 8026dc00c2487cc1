"""What file servers refuse, lose, or cannot do, and what then happens to the checkpoints and outputs there."""

from __future__ import annotations

import ftplib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import checkpoint, object_store
from jupyter_smx.agent.errors import DONE, MISSING, REFUSED, UNREACHABLE
from jupyter_smx.agent.job import continuous
from jupyter_smx.agent.stores import filesystems, retry, scan, sftp_ftp, upload
from jupyter_smx.testing.servers.file_servers import InProcessWorker

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.testing.servers.file_servers import FileServer

pytestmark = pytest.mark.heavy("stores")

WRITER = "job-algo-1"
LONG_AGO = 1_000.0


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


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    (folder / "last").mkdir(parents=True)
    (folder / "last" / "b").write_text("newest")
    return folder


@pytest.fixture
def store(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> checkpoint.CheckpointStore:
    monkeypatch.setattr(object_store.worker_client, "FsspecWorker", InProcessWorker)
    made = object_store.open_store(place(server), WRITER, object_store.worker_client.WorkerOptions(), what="checkpoint")
    assert made is not None
    return made


# Folders that another host removes


@pytest.mark.parametrize("times", [1, 3])
def test_a_folder_that_is_taken_away_during_the_copy_is_made_again(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    there, left = tmp_path / "kept", list(range(times))
    real_copy, real_replace = checkpoint.safe_open.copy, os.replace

    def taken_away() -> None:
        if left:
            left.pop()
            (there / "last").rmdir()

    def copy(*words: Any) -> None:
        taken_away()
        real_copy(*words)

    def replace(*words: Any) -> None:
        taken_away()
        real_replace(*words)

    monkeypatch.setattr(checkpoint.safe_open, "copy", copy)
    monkeypatch.setattr(checkpoint.os, "replace", replace)
    mirror = checkpoint.Mirror(str(here), checkpoint.FolderStore(str(there), WRITER))
    mirror.sync(LONG_AGO, everything=True)
    assert mirror.errors == {}
    assert (there / "last" / "b").read_text() == "newest"
    assert [path.name for path in there.iterdir()] == ["last"]


def test_what_cannot_be_put_into_a_folder_that_goes_again_and_again_is_said_and_the_one_before_it_stays(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "kept"
    mirror = checkpoint.Mirror(str(here), checkpoint.FolderStore(str(there), WRITER))
    mirror.sync(LONG_AGO, everything=True)
    (here / "last" / "b").unlink()
    (here / "last" / "c").write_text("newer")

    def replace(_source: str, target: str) -> None:
        raise FileNotFoundError(2, os.strerror(2), target)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, "replace", replace)
        mirror.sync(LONG_AGO, everything=True)
    assert list(mirror.errors) == ["last/c"]
    assert "No such file" in mirror.errors["last/c"]
    assert [path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()] == ["last/b"]
    mirror.sync(LONG_AGO, everything=True)
    assert (mirror.errors, [path.name for path in there.rglob("*") if path.is_file()]) == ({}, ["c"])


@pytest.mark.parametrize(("where", "name"), [(checkpoint.scan, "scan_folder"), (checkpoint.FolderStore, "upload")])
def test_what_got_another_name_during_the_look_costs_no_other_checkpoint(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    there = tmp_path / "kept"
    mirror = checkpoint.Mirror(str(here), checkpoint.FolderStore(str(there), WRITER))
    mirror.sync(LONG_AGO, everything=True)
    (here / "last" / "b").unlink()
    (here / "c.part").write_text("newer")
    real = getattr(where, name)

    def meanwhile(*words: Any, **more: Any) -> Any:
        found = real(*words, **more) if name == "scan_folder" else None
        if (here / "c.part").exists():
            (here / "c.part").rename(here / "c")
        return found or real(*words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, meanwhile)
        mirror.sync(LONG_AGO, everything=True)
    assert (there / "last" / "b").exists()
    mirror.sync(LONG_AGO, everything=True)
    assert [path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()] == ["c"]


def test_also_on_a_server(
    server: FileServer, here: Path, store: checkpoint.CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = sftp_ftp.RemoteFolders.make, list[str]()

    def make(folders: sftp_ftp.RemoteFolders, system: Any, folder: str) -> None:
        real(folders, system, folder)
        times.append(folder)
        if len(times) == 1:
            shutil.rmtree(server.folder / "kept")

    monkeypatch.setattr(sftp_ftp.RemoteFolders, "make", make)
    mirror = checkpoint.Mirror(str(here), store)
    mirror.sync(LONG_AGO, everything=True)
    assert (mirror.errors, kept(server)) == ({}, {"last/b": "newest"})
    assert len(times) > 1


def test_what_is_never_found_on_a_server_is_said(
    server: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sftp_ftp.RemoteFolders, "make", lambda *_words: None)
    ((how, said),) = upload.upload(place(server), [[str(model), "deep/model.pt", None]], WRITER)
    assert how in (REFUSED, UNREACHABLE)
    assert said
    model.unlink()
    ((how, said),) = upload.upload(place(server), [[str(model), "deep/model.pt", None]], WRITER)
    assert how == MISSING


def test_a_folder_that_goes_while_it_is_made_again_is_no_sign_that_the_file_here_is_gone(
    server: FileServer, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(_folders: sftp_ftp.RemoteFolders, _system: Any, folder: str) -> None:
        raise FileNotFoundError(2, os.strerror(2), folder)

    monkeypatch.setattr(sftp_ftp.RemoteFolders, "make", make)
    ((how, said),) = upload.upload(place(server), [[str(model), "deep/model.pt", None]], WRITER)
    assert how == REFUSED
    assert "No such file" in said


def test_a_host_that_begins_goes_on_without_what_another_one_deletes_meanwhile(
    server: FileServer, tmp_path: Path
) -> None:
    server.put("kept/a", "1")
    rows = [[name, str(tmp_path / name), None] for name in ("a", "b")]
    assert [one.status for one in upload.download(place(server), rows)] == [DONE, MISSING]
    assert (tmp_path / "a").read_text() == "1"
    assert not (tmp_path / "b").exists()


# No room


@pytest.mark.parametrize(
    "error",
    [
        ftplib.error_temp("452 Insufficient storage space"),  # noqa: S321 - no connection, but what one may say
        ftplib.error_perm("552 Exceeded storage allocation"),  # noqa: S321 - no connection, but what one may say
    ],
)
def test_on_a_full_server_what_the_job_deleted_makes_room(
    ftp: FileServer, here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(object_store.worker_client, "FsspecWorker", InProcessWorker)
    store = object_store.open_store(place(ftp), WRITER, object_store.worker_client.WorkerOptions(), what="checkpoint")
    assert store is not None
    mirror = checkpoint.Mirror(str(here), store)
    mirror.sync(LONG_AGO, everything=True)
    (here / "last" / "b").unlink()
    (here / "last" / "c").write_text("newer")
    real = ftplib.FTP.storbinary

    def storbinary(line: ftplib.FTP, *words: Any, **more: Any) -> str:
        if (ftp.folder / "kept/last/b").exists():
            raise error
        return real(line, *words, **more)

    monkeypatch.setattr(ftplib.FTP, "storbinary", storbinary)
    mirror.sync(LONG_AGO, everything=True)
    assert "its disk is full" in mirror.errors["last/c"]
    assert kept(ftp) == {}
    mirror.sync(LONG_AGO, everything=True)
    assert (mirror.errors, kept(ftp)) == ({}, {"last/c": "newer"})
    assert retry.is_full(error)
    assert not retry.is_transient(error)


# Many files, few connections


def test_a_folder_is_asked_for_once_however_many_files_go_there(
    ftp: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for number in range(40):
        (tmp_path / str(number)).write_text(str(number))
        rows.append([str(tmp_path / str(number)), f"deep/er/{number}", None])
    real, listed = ftplib.FTP.mlsd, list[str]()

    def mlsd(line: ftplib.FTP, path: str = "", *words: Any) -> Any:
        listed.append(path)
        return real(line, path, *words)

    monkeypatch.setattr(ftplib.FTP, "mlsd", mlsd)
    assert {one.status for one in upload.upload(place(ftp), rows, WRITER)} == {DONE}
    assert len(kept(ftp)) == len(rows)
    assert len(listed) < 10, "fsspec lists the folders above for each folder that it makes"


@pytest.mark.parametrize("connections", [1, 2])
def test_outputs_go_by_few_connections_and_by_new_ones_where_those_are_lost(
    ftp: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """Such a server refuses further connections, and closes each one after some files."""
    monkeypatch.setattr(upload.retry.time, "sleep", lambda _seconds: None)
    open_lines: dict[ftplib.FTP, int] = {}
    connect, stor = ftplib.FTP.connect, ftplib.FTP.storbinary

    def connecting(line: ftplib.FTP, *words: Any, **more: Any) -> str:
        if len(open_lines) >= connections:
            raise ConnectionRefusedError(111, "Connection refused")
        open_lines[line] = 0
        return connect(line, *words, **more)

    def storing(line: ftplib.FTP, *words: Any, **more: Any) -> str:
        if line not in open_lines:
            raise ConnectionResetError
        open_lines[line] += 1
        if open_lines[line] > 5:
            del open_lines[line]
            raise ConnectionResetError
        return stor(line, *words, **more)

    monkeypatch.setattr(ftplib.FTP, "connect", connecting)
    monkeypatch.setattr(ftplib.FTP, "storbinary", storing)
    names = [f"{number}.csv" for number in range(20)]
    for name in names:
        (tmp_path / name).write_text(name)
    assert upload.put_files([[str(tmp_path / name), f"{place(ftp)}/new/{name}"] for name in names]) == len(names)
    assert kept(ftp) == {f"new/{name}": name for name in names}


# Refused logins, and missing files


def test_who_is_not_let_in_reads_that_and_is_not_waited_for(
    sftp: FileServer, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    host = sftp.address.rpartition("@")[2]
    for who in ("me:wrong@", "me@"):
        ((how, said),) = upload.upload(f"sftp://{who}{host}/kept", [[str(model), "a", None]], WRITER)
        assert how == REFUSED, said
        assert "access is denied" in said
        with pytest.raises(Exception, match="uthentication"):
            upload.list_files(f"sftp://{who}{host}/kept")


@pytest.mark.parametrize(
    ("url", "package"), [("sftp://h/x", "paramiko"), ("smb://h/s/x", "smbprotocol"), ("abfs://c/x", "adlfs")]
)
def test_the_package_of_a_store_is_named_as_pip_has_it(url: str, package: str) -> None:
    pytest.importorskip("fsspec")
    module = {"smbprotocol": "smbclient"}.get(package, package)
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from jupyter_smx.agent.stores import filesystems\n"
        f"try: filesystems.find_filesystem({url!r})\n"
        "except filesystems.PackageMissingError as lack: print(lack)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"{package}\n"
    assert filesystems.required_packages(url) == f"fsspec {package}"


def test_a_protocol_without_urls_is_refused_with_what_helps(model: Path) -> None:
    pytest.importorskip("fsspec")
    ((how, said),) = upload.upload("webdav://host/x", [[str(model), "a", None]], WRITER)
    assert how == REFUSED
    assert "fsspec does not support 'webdav'" in said
    assert "mount" in said


def test_names_of_files_and_folders_exclude_each_other_where_there_are_folders() -> None:
    flat = {}
    for kind in ("s3", "gs", "abfs", "sftp", "ftp", "smb", "hdfs", "webhdfs"):
        store = object_store.open_store(
            f"{kind}://h/x", WRITER, object_store.worker_client.WorkerOptions(), what="checkpoint"
        )
        assert store is not None
        flat[kind] = store.is_flat
    assert [kind for kind, is_flat in flat.items() if is_flat] == ["s3", "gs", "abfs"]


# Outputs that are copied to their destination while the job runs


def test_what_was_being_written_when_a_host_was_lost_goes_with_its_next_attempt(
    server: FileServer, store: checkpoint.CheckpointStore, tmp_path: Path
) -> None:
    output = tmp_path / "ml" / "output"
    output.mkdir(parents=True)
    (output / "a").write_text("1")
    mine, other = (f"deep/{scan.PART}{writer}-0123456789abcdef" for writer in (WRITER, "other"))
    for name in (mine, other):
        server.put(f"kept/{name}", "half")
    mirror = continuous._OutputMirror(str(output), store, str(tmp_path / "ml"))
    mirror.sync(LONG_AGO, everything=True)
    assert kept(server) == {"a": "1", other: "half"}


def test_also_in_a_folder(tmp_path: Path) -> None:
    output, there = tmp_path / "ml" / "output", tmp_path / "there"
    for folder in (output, there):
        folder.mkdir(parents=True)
    (there / f"{scan.PART}{WRITER}").write_text("half")
    (there / f"{scan.PART}other").write_text("half")
    store = checkpoint.FolderStore(str(there), WRITER, is_ours=False)
    continuous._OutputMirror(str(output), store, str(tmp_path / "ml")).sync(LONG_AGO, everything=True)
    assert [path.name for path in there.iterdir()] == [f"{scan.PART}other"]
