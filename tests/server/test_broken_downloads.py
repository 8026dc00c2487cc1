"""Files on their way to a browser that end too early: the browser leaves, or the controller does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest_asyncio

if TYPE_CHECKING:
    import pytest
    from fake_controller import FakeController


@pytest_asyncio.fixture
async def download(
    jp_base_url: str, jp_auth_header: dict[str, str], http_server_client: Any, controller: FakeController
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Give the connection of a browser that has begun to read an endless file."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
    path, credential = f"{jp_base_url}jupyter-smx{controller.endless.path[3:]}", jp_auth_header["Authorization"]
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {credential}\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    return reader, writer


async def test_a_browser_that_leaves_is_no_error_in_the_log(
    download: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    controller: FakeController,
    caplog: pytest.LogCaptureFixture,
    eventually: Any,
) -> None:
    writer = download[1]
    writer.transport.abort()
    await asyncio.wait_for(controller.endless.over.wait(), 20)
    await eventually(lambda: "artifacts/endless" in caplog.text, "the request is over")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_file_that_breaks_off_looks_like_none_that_is_whole(
    download: tuple[asyncio.StreamReader, asyncio.StreamWriter], controller: FakeController
) -> None:
    reader, writer = download
    closing = asyncio.ensure_future(controller.close())
    came = await asyncio.wait_for(reader.read(), 20)
    await closing
    assert b"ServiceUnavailable" not in came
    assert not came.endswith(b"\r\n0\r\n\r\n"), "the mark of the end"
    writer.close()
