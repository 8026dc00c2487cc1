"""A front that listens on loopback with services of the test, and botocore's own clients of it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.session import Session
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import RequestHandler

from jupyter_smx.aws.front import S3Route, make_front
from jupyter_smx.aws.identity import make_iam, make_sts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_smx.aws.service import Service

ACCESS_KEY = "SMX0123456789ABCDEFG"
SECRET_KEY = "s" * 40


class BucketsHandler(RequestHandler):
    """Stands where S3 is; it shows that a request came there."""

    async def get(self) -> None:
        self.finish("s3")


class FrontServer:
    """A front in a thread of its own, since botocore's clients block."""

    def __init__(self, services: list[Service], clock: Callable[[], float]) -> None:
        socket, self.port = bind_unused_port()
        self.loop = asyncio.new_event_loop()
        numbers = itertools.count()
        self.front = make_front(
            [make_sts(), make_iam(), *services],
            {ACCESS_KEY: SECRET_KEY},
            S3Route(BucketsHandler, {}),
            port=self.port,
            clock=clock,
            new_id=lambda: f"id-{next(numbers)}",
        )

        async def serve() -> None:
            self.server = HTTPServer(self.front)
            self.server.add_sockets([socket])

        self.loop.run_until_complete(serve())
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        async def stop() -> None:
            self.server.stop()
            await self.server.close_all_connections()
            self.loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self.loop)
        self._thread.join()
        self.loop.close()

    def client(
        self,
        service: str,
        *,
        secret: str = SECRET_KEY,
        region: str = "eu-west-1",
        mode: str = "standard",
        **config: Any,
    ) -> Any:
        return Session().create_client(
            service,
            region_name=region,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=secret,
            config=Config(retries={"mode": mode}, **config),
        )


@pytest.fixture
def start_front() -> Iterator[Callable[..., FrontServer]]:
    """Return what starts a front with services."""
    started: list[FrontServer] = []

    def start(*services: Service, clock: Callable[[], float] = time.time) -> FrontServer:
        started.append(FrontServer(list(services), clock))
        return started[-1]

    yield start
    for front in started:
        front.close()
