"""A fake Docker daemon: a test can delay each of its answers; it has no containers, and makes none."""

from __future__ import annotations

import http.server
import json
import os
import socketserver
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Daemons(socketserver.ThreadingUnixStreamServer):
    """A daemon that answers every request with the same list, after ``hold(path)``."""

    speaks = "1.41"
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, hold: Callable[[str], None]) -> None:
        super().__init__(os.fspath(path), Answer)
        self.hold = hold

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a client that gave up has closed its connection."""


class Answer(http.server.BaseHTTPRequestHandler):
    """One connection to it."""

    protocol_version = "HTTP/1.1"
    server: Daemons

    def do_GET(self) -> None:
        if self.path.startswith("/v1.") and not self.path.startswith(f"/v{self.server.speaks}/"):
            self.answer({"message": "client version 1.41 is too old. Minimum supported API version is 1.44"}, 400)
        elif "/containers/jupyter-smx-" in self.path:
            self.answer({"message": "there is none"}, 404)
        elif self.path.startswith("/images/"):
            self.answer({"Id": "sha256:1"})
        else:
            self.answer({"ApiVersion": self.server.speaks} if self.path == "/version" else [])

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        taken = "container create: that name is already in use"
        self.answer({"message": taken if self.path.endswith("name=taken") else "not today"}, 500)

    def answer(self, body: object, status: int = 200) -> None:
        self.server.hold(self.path)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words: object) -> None:
        return

    def address_string(self) -> str:
        return "a unix socket has none"
