"""A server of S3 in a thread, with botocore's own client and raw connections to it."""

from __future__ import annotations

import asyncio
import functools
import http.client
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from jupyter_smx.aws.s3.handler import S3Handler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY, SECRET = "SMXAAAAAAAAAAAAAAAAA", "s" * 40


@functools.cache
def session() -> botocore.session.Session:
    """Give one session to all tests, since reading the model of S3 takes a second."""
    return botocore.session.Session()


@dataclass
class S3Server:
    """A running server, its folder, and its clock, which tests move."""

    root: Path
    port: int
    loop: asyncio.AbstractEventLoop
    skew: list[float] = field(default_factory=lambda: [0.0])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def path(self, bucket: str, key: str = "") -> Path:
        return self.root / bucket / key

    def temporary_files(self) -> list[Path]:
        return list((self.root / ".smx/temporary").glob("*/*"))

    def client(
        self,
        secret: str = SECRET,
        *,
        region: str = "eu-central-1",
        own_session: botocore.session.Session | None = None,
        **config: Any,
    ) -> Any:
        """Return botocore's client; one attempt, so that no test waits for another one."""
        options = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}, **config}
        return (own_session or session()).create_client(
            "s3",
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=secret,
            config=Config(**options),
        )

    def signed_headers(self, method: str, path: str, headers: dict[str, str], digest: str) -> dict[str, str]:
        request = AWSRequest(method, self.url + path, headers={**headers, "X-Amz-Content-SHA256": digest})
        SigV4Auth(Credentials(KEY, SECRET), "s3", "eu-central-1").add_auth(request)
        return dict(request.headers.items())

    def running_requests(self) -> list[Any]:
        """Return the tasks of handlers that did not end."""
        coroutines: list[Any] = [task.get_coro() for task in asyncio.all_tasks(self.loop)]
        return [coroutine for coroutine in coroutines if coroutine.__qualname__ == "RequestHandler._execute"]

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
        """Send a request as it is given, and return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@contextmanager
def running(root: Path) -> Iterator[S3Server]:
    """Serve a folder in a thread of its own until the end of the block."""
    skew = [0.0]
    ready = threading.Event()
    ends: dict[str, Any] = {}

    async def serve() -> None:
        options = {"root": root, "secrets": {KEY: SECRET}, "clock": lambda: time.time() + skew[0]}
        server = HTTPServer(Application([(r".*", S3Handler, options)], log_function=lambda _: None))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        ends.update(port=sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=asyncio.Event())
        ready.set()
        await ends["stop"].wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield S3Server(root, ends["port"], ends["loop"], skew)
    finally:
        ends["loop"].call_soon_threadsafe(ends["stop"].set)
        thread.join()


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    """Give a server with the bucket ``data``."""
    root = tmp_path / "s3"
    (root / "data").mkdir(parents=True)
    with running(root) as server:
        yield server
        assert server.temporary_files() == [], "every request removes its temporary file"


@pytest.fixture
def client(s3: S3Server) -> Iterator[Any]:
    made = s3.client()
    yield made
    made.close()
