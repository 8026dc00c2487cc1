"""Simulate Google Cloud Storage on loopback: the part of its JSON API that gcsfs and rclone use."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from jupyter_smx.testing.servers.object_storage import needs_storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_API = "/storage/v1/b/bucket"
_TIME = "2026-01-02T03:04:05.678Z"


class GoogleBucket:
    """One bucket, whose objects are files here, and the variables with which a job reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.requests: list[str] = []
        self.uploads: dict[str, tuple[str, bytearray]] = {}
        """Keys and what has come so far, by the paths of uploads in parts that are under way."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a job that reads from here only."""
        # Which kind of bucket it is gcsfs would ask Google itself, by gRPC.
        asks_nobody = {"NO_GCE_CHECK": "true", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
        return {"STORAGE_EMULATOR_HOST": self.address, **asks_nobody}

    def put(self, key: str, content: str) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def keys(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def read_keys(self) -> list[str]:
        """List the keys whose content was asked for so far, sorted."""
        asked = [urlsplit(one) for one in self.requests]
        return sorted(unquote(one.path.rsplit("/o/", 1)[1]) for one in asked if "alt=media" in one.query)

    def describe(self, key: str) -> dict[str, Any]:
        """Return the API's description of an object."""
        data = (self.folder / key).read_bytes()
        digest = hashlib.md5(data, usedforsecurity=False)
        return {
            "kind": "storage#object",
            "name": key,
            "bucket": "bucket",
            "size": str(len(data)),
            "etag": digest.hexdigest(),
            "md5Hash": base64.b64encode(digest.digest()).decode(),
            "generation": "1",
            "updated": _TIME,
            "timeCreated": _TIME,
            "contentType": "text/plain",
            "mediaLink": f"{self.address}/download{_API}/o/{quote(key, safe='')}?alt=media",
        }

    def listing(self, words: dict[str, list[str]]) -> dict[str, Any]:
        """Return one page of a listing."""
        prefix, delimiter = words.get("prefix", [""])[0], words.get("delimiter", [""])[0]
        after, most = words.get("pageToken", [""])[0], int(words.get("maxResults", ["1000"])[0])
        found = [key for key in self.keys() if key.startswith(prefix) and key > after]
        page = found[:most]
        deeper = {key for key in page if delimiter and delimiter in key[len(prefix) :]}
        ends = {prefix + key[len(prefix) :].split(delimiter)[0] + delimiter for key in deeper}
        whole = {
            "kind": "storage#objects",
            "items": [self.describe(key) for key in page if key not in deeper],
            "prefixes": sorted(ends),
        }
        return {**whole, "nextPageToken": page[-1]} if len(found) > most else whole


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, google: GoogleBucket, *arguments: Any) -> None:
        self.google = google
        super().__init__(*arguments)

    def log_message(self, _form: str, *_words: Any) -> None:
        self.google.requests.append(self.path)

    def do_GET(self) -> None:
        """Answer as the API does."""
        asked = urlsplit(self.path)
        path, words = asked.path.removeprefix("/download"), parse_qs(asked.query)
        key = unquote(path.removeprefix(f"{_API}/o/"))
        if path == f"{_API}/o":
            self._reply(json.dumps(self.google.listing(words)).encode())
        elif not path.startswith(f"{_API}/o/") or not (self.google.folder / key).is_file():
            self._reply(b'{"error": {"code": 404, "message": "Not Found"}}', 404)
        elif words.get("alt") == ["media"]:
            self._reply((self.google.folder / key).read_bytes())
        else:
            self._reply(json.dumps(self.google.describe(key)).encode())

    def do_POST(self) -> None:
        """Receive an object in one piece, or one part of it; it appears when it is complete."""
        asked = urlsplit(self.path)
        words, data = parse_qs(asked.query), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if asked.path in self.google.uploads:
            self._append_part(asked.path, data)
        elif words.get("uploadType") == ["multipart"]:
            _head, said, content = data.split(b"\n\n", 2)
            self._store(json.loads(said.split(b"\n--==0==")[0])["name"], content.removesuffix(b"\n--==0==--"))
        else:
            path = f"/resume/{len(self.google.requests)}"
            self.google.uploads[path] = json.loads(data)["name"], bytearray()
            self._reply(b"", Location=self.google.address + path)

    def _append_part(self, path: str, data: bytes) -> None:
        key, so_far = self.google.uploads[path]
        so_far += data
        if self.headers["Content-Range"].endswith("/*"):
            self._reply(b"", 308, Range=f"bytes=0-{len(so_far) - 1}")
            return
        del self.google.uploads[path]
        self._store(key, bytes(so_far))

    def _store(self, key: str, content: bytes) -> None:
        path = self.google.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._reply(json.dumps(self.google.describe(key)).encode())

    def do_DELETE(self) -> None:
        """Delete an object, or give an upload up."""
        path = urlsplit(self.path).path
        key = unquote(path.removeprefix(f"{_API}/o/"))
        if self.google.uploads.pop(path, None) is not None:
            self._reply(b"", 499)
        elif (self.google.folder / key).is_file():
            (self.google.folder / key).unlink()
            self._reply(b"", 204)
        else:
            self._reply(b'{"error": {"code": 404, "message": "Not Found"}}', 404)

    def _reply(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(ConnectionError):  # gcsfs sends several requests at once, and waits for one
            self.end_headers()
            self.wfile.write(data)


@pytest.fixture
def google(tmp_path: Path) -> Iterator[GoogleBucket]:
    """Yield an empty bucket on a server of its own."""
    needs_storage("gcsfs")
    found = GoogleBucket(tmp_path / "google")
    found.folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, found))
    server.daemon_threads = True
    found.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
