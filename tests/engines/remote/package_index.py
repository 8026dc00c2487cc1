"""An index of packages that lie in a folder, for pip and uv: ``/simple/NAME/`` lists what there is of a package."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class PackageIndex:
    """Serves the wheels and archives of ``folder``; ``requests`` are the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                kind, _, name = self.path.strip("/").partition("/")
                if kind == "files":
                    self._answer((folder / name).read_bytes(), "application/octet-stream")
                    return
                found = [path.name for path in sorted(folder.iterdir()) if path.name.split("-")[0] == name]
                links = "".join(f'<a href="/files/{each}">{each}</a>' for each in found)
                self._answer(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html", bool(found))

            do_HEAD = do_GET  # noqa: N815 - the name of the base class

            def _answer(self, body: bytes, kind: str, is_there: bool = True) -> None:
                self.send_response(200 if is_there else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
