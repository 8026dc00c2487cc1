"""Real file servers on loopback, each over a folder: SFTP with a password, and anonymous FTP."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.stores import upload
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.servers.object_storage import needs_storage, rclone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "me", "hunter2"


class FileServer:
    """A server of files over a folder; a URL begins with ``address``."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address

    def put(self, name: str, content: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


class InProcessWorker:
    """A courier that is no process of its own."""

    def __init__(self, *_words: object) -> None:
        pass

    def request(self, _url: str, do: str, **words: Any) -> Any:
        operations: dict[str, Any] = {
            "put": upload.put_files,
            "names": upload.list_files,
            "sweep": upload.remove_partial_files,
            "bring": upload.download,
            "keep": upload.upload,
            "drop": upload.delete,
        }
        return operations[do](**words)

    def close(self) -> None:
        pass


def _is_listening(address: str) -> bool:
    host, _, port = address.partition(":")
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
        return True
    return False


@contextlib.contextmanager
def _serve(kind: str, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Serve a folder: new files are visible at once, and failed operations are not repeated."""
    folder.mkdir()
    # With no time at all its timers turn in a circle; tests that change its folder behind its back need that.
    usual = ["--config", os.devnull, "--cache-dir", f"{folder}.cache", "--dir-cache-time", "0s"]
    usual += ["--low-level-retries", "1", "--retries", "1"]
    server = subprocess.Popen([rclone(), "serve", kind, *words, *usual, str(folder)], stderr=subprocess.PIPE, text=True)
    try:
        yield server
    finally:
        server.terminate()
        server.communicate()


def _wait_for_line(server: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Wait until a server has printed a line that matches."""
    assert server.stderr is not None
    said = ""
    while not (found := re.search(pattern, said)):
        line = server.stderr.readline()
        assert line, said
        said += line
    return found


@pytest.fixture
def ftp(tmp_path: Path) -> Iterator[FileServer]:
    """Yield an FTP server over an empty folder."""
    needs_storage()
    with socket.create_server(("127.0.0.1", 0)) as free:  # with port 0 it would not report its choice
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with _serve("ftp", tmp_path / "ftp", "--addr", address) as server:
        _wait_for_line(server, "Serving FTP")
        eventually_blocking(lambda: _is_listening(address), "it says so before it listens")
        yield FileServer(tmp_path / "ftp", f"ftp://{address}")


@pytest.fixture
def sftp(tmp_path: Path) -> Iterator[FileServer]:
    """Yield an SFTP server over an empty folder."""
    needs_storage("paramiko")
    who = ["--user", USER, "--pass", PASSWORD, "--authorized-keys", ""]
    with _serve("sftp", tmp_path / "sftp", "--addr", "127.0.0.1:0", *who) as server:
        port = _wait_for_line(server, r"listening on 127\.0\.0\.1:(\d+)")[1]
        yield FileServer(tmp_path / "sftp", f"sftp://{USER}:{PASSWORD}@127.0.0.1:{port}")


@pytest.fixture(params=["ftp", "sftp"])
def server(request: pytest.FixtureRequest) -> FileServer:
    """Return each of the servers in turn."""
    found: FileServer = request.getfixturevalue(request.param)
    return found
