"""What a browser receives on errors: the versions of both sides, missing permissions, failed starts."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import controller_state, logged_in
from fake_controller import FakeController
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError
from tornado.simple_httpclient import HTTPTimeoutError

from jupyter_smx import controller_launch
from jupyter_smx.controller_launch_errors import start_error as unusable
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.server.handlers.base import NO_RIGHT, NOT_LOGGED_IN

if TYPE_CHECKING:
    from traitlets.config import Config

    from jupyter_smx.server.app import SmxServerExtension
    from jupyter_smx.server.connection import ControllerConnection


class Nobody(Authorizer):
    """Allow every action except those on jobs and pools."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        del handler, user, action
        return resource != "jupyter_smx"


@pytest.fixture
def forbidding(jp_server_config: Config) -> None:
    jp_server_config.ServerApp.authorizer_class = Nobody


async def refused(work: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    with pytest.raises(HTTPClientError) as caught:
        await work
    answer = caught.value.response
    return caught.value.code, json.loads(answer.body), dict(answer.headers)


async def test_every_answer_says_the_version_of_the_server_half_and_its_clock(
    jp_fetch: Any, controller: FakeController
) -> None:
    good = await jp_fetch("jupyter-smx", "controller")
    _, _, unknown = await refused(jp_fetch("jupyter-smx", "jobs", "none"))
    _, _, forbidden = await refused(jp_fetch("jupyter-smx", "jobs", headers={"Authorization": "token wrong"}))
    for headers in (good.headers, unknown, forbidden):
        assert headers["X-Smx-Version"] == version("jupyter-smx")
        assert float(headers["X-Smx-Now"]) > 0
    assert [seen.path for seen in controller.seen] == ["/v1/", "/v1/jobs/none"]


async def test_who_is_not_logged_in_is_told_so(jp_fetch: Any) -> None:
    code, body, _ = await refused(jp_fetch("jupyter-smx", "controller", headers={"Authorization": "token old"}))
    assert (code, body["code"], body["cure"]) == (403, NOT_LOGGED_IN, "Log in again.")


@pytest.mark.usefixtures("forbidding")
async def test_who_is_logged_in_and_has_no_right_is_told_which_right_and_who_gives_it(jp_fetch: Any) -> None:
    code, body, _ = await refused(jp_fetch("jupyter-smx", "controller"))
    assert (code, body["code"]) == (403, NO_RIGHT)
    assert body["message"] == "User is not authorized to read on resource: jupyter_smx."
    assert "administrator" in body["cure"]
    assert "jupyter_smx" in body["cure"]


async def test_a_page_with_the_mark_of_an_older_login_is_told_to_reload(jp_fetch: Any, jp_serverapp: Any) -> None:
    cookies = await logged_in(jp_fetch, jp_serverapp)
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    asked = jp_fetch(
        "jupyter-smx", "jobs", "a", "stop", method="POST", body="{}", headers={"Authorization": "", "Cookie": header}
    )
    code, body, _ = await refused(asked)
    assert (code, body["cure"]) == (403, "Reload the page.")


def spoil(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("somebody needed a file of this name")


def mend(folder: Path) -> FakeController:
    """Make it a folder again, and let a controller listen in it."""
    folder.unlink()
    controller_launch.ensure_folders()
    fake = FakeController()
    fake.listen()
    return fake


async def start(jp_fetch: Any) -> Any:
    return await jp_fetch("jupyter-smx", "controller", method="POST", body="{}")


async def test_a_data_folder_that_is_none_is_told_with_its_cure_to_every_page_until_it_is_mended(
    jp_fetch: Any, data_dir: Path
) -> None:
    spoil(data_dir)
    code, body, _ = await refused(start(jp_fetch))
    assert (code, body["field"], body["value"]) == (503, "data_dir", str(data_dir))
    assert "could not be started" in body["message"]
    assert controller_launch.DATA_DIR_VARIABLE in body["cure"]
    assert (await controller_state(jp_fetch))["problem"] == body
    fake = mend(data_dir)
    assert json.loads((await start(jp_fetch)).body)["running"] is True
    await fake.close()
    assert await controller_state(jp_fetch) == {"running": False, "records_note": ""}


async def test_a_controller_that_another_program_started_ends_the_complaint(jp_fetch: Any, data_dir: Path) -> None:
    spoil(data_dir)
    await refused(start(jp_fetch))
    fake = mend(data_dir)
    assert (await controller_state(jp_fetch))["running"] is True
    await fake.close()
    assert await controller_state(jp_fetch) == {"running": False, "records_note": ""}


async def test_the_controllers_own_last_sentence_is_told_whole_and_ends_once(
    jp_fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = controller_launch.start_controller
    monkeypatch.setattr(controller_launch, "start_controller", lambda: real("/bin/false"))
    controller_launch.log_path().write_text(
        "The records were written by a newer jupyter-smx. Update jupyter-smx here.\n"
    )
    _, body, _ = await refused(start(jp_fetch))
    assert body["message"].endswith("by a newer jupyter-smx. Update jupyter-smx here.")
    assert controller_launch.log_path().name in body["cure"]


@pytest.mark.parametrize(("number", "words"), [(errno.EROFS, "Read-only file system"), (errno.EACCES, "denied")])
def test_a_folder_that_may_not_be_written_is_named_with_the_reason_and_two_cures(number: int, words: str) -> None:
    error = unusable(OSError(number, {errno.EROFS: "Read-only file system", errno.EACCES: "Permission denied"}[number]))
    assert words in error.message
    assert str(controller_launch.data_dir()) in error.message
    assert "write to" in error.cure
    assert controller_launch.DATA_DIR_VARIABLE in error.cure


class Leaving:
    """A controller that exits: it accepts one connection, removes its socket, and closes the connection."""

    def __init__(self) -> None:
        self.lines = 0
        self._door: asyncio.Server | None = None

    async def listen(self) -> None:
        controller_launch.ensure_folders()
        self._door = await asyncio.start_unix_server(self._cut, controller_launch.socket_address())

    def _cut(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        Path(controller_launch.socket_address()).unlink()
        assert self._door is not None
        self._door.close()
        writer.close()


async def test_a_controller_that_leaves_while_it_is_asked_is_none_and_no_trouble(jp_fetch: Any) -> None:
    leaving = Leaving()
    await leaving.listen()
    assert await controller_state(jp_fetch) == {"running": False, "records_note": ""}
    assert leaving.lines == 1


async def test_what_is_not_safe_to_repeat_is_never_asked_twice(jp_fetch: Any, controller: FakeController) -> None:
    controller.answer("POST", "/v1/jobs/a/interrupt", 200, b"{}", Content_Length="999")
    code, body, _ = await refused(jp_fetch("jupyter-smx", "jobs", "a", "interrupt", method="POST", body="{}"))
    assert (code, body["code"]) == (503, "ServiceUnavailable")
    assert len(controller.asked("/v1/jobs/a/interrupt")) == 1


class Cutting:
    """A controller that closes its first connections after it read their requests, and then answers as another one."""

    def __init__(self, cuts: int) -> None:
        self.cuts = cuts
        self.requests: list[bytes] = []
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        controller_launch.ensure_folders()
        self._server = await asyncio.start_unix_server(self._take, controller_launch.socket_address())

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.split(b" HTTP")[0])
        if len(self.requests) > self.cuts:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()


class Pauses:
    """A clock that only the pauses of a connection advance."""

    def __init__(self, connection: ControllerConnection) -> None:
        self.now = 1.0
        connection.clock = lambda: self.now
        connection.sleep = self.sleep

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("method", "path"), [("POST", "jobs"), ("POST", "jobs/a/stop"), ("GET", "pools")])
async def test_a_request_that_is_safe_to_repeat_is_sent_again_for_a_few_seconds(
    jp_fetch: Any, extension: SmxServerExtension, method: str, path: str
) -> None:
    pauses = Pauses(extension.connection)
    cutting = Cutting(7)
    await cutting.listen()
    body = '{"id": "ab", "spec": {}}' if method == "POST" else None
    answer = await jp_fetch("jupyter-smx", *path.split("/"), method=method, body=body)
    assert answer.code == 200
    assert cutting.requests[-1] == f"{method} /v1/{path}".encode()
    assert pauses.now < 2.0
    cutting.cuts = 10_000
    code, _, _ = await refused(jp_fetch("jupyter-smx", *path.split("/"), method=method, body=body))
    assert code == 503
    assert 6.0 <= pauses.now < 8.0
    await cutting.close()


async def test_a_controller_is_started_where_none_listens_any_more(
    jp_fetch: Any, extension: SmxServerExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pauses(extension.connection)
    fake = FakeController()

    async def start() -> None:
        fake.listen()

    monkeypatch.setattr(extension.connection, "_start", start)
    leaving = Leaving()
    await leaving.listen()
    fake.answer("POST", "/v1/jobs/a/stop", 200, b"{}")
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "stop", method="POST", body="{}")
    assert (answer.code, leaving.lines, len(fake.asked("/v1/jobs/a/stop"))) == (200, 1, 1)
    await fake.close()


@pytest.mark.parametrize("end", ["no restart", "cut each time", "timeout"])
async def test_a_submission_that_may_have_been_received_says_so_with_its_id(
    jp_fetch: Any, extension: SmxServerExtension, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    Pauses(extension.connection)
    cutting = Cutting(10_000)
    await cutting.listen()
    monkeypatch.setattr(extension.connection, "ensure", ready)
    fetch = extension.connection._open_client().fetch

    async def cut_then_end(request: Any, **options: Any) -> Any:
        if end == "timeout":
            raise HTTPTimeoutError("Timeout during request")
        if cutting.requests and end == "no restart":
            monkeypatch.setattr(extension.connection, "ensure", no_start)
            raise ConnectionRefusedError
        return await fetch(request, **options)

    monkeypatch.setattr(extension.connection._open_client(), "fetch", cut_then_end)
    for body, doubt in (('{"id": "ab12", "spec": {}}', True), ("{}", False)):
        path = "jobs" if doubt else "jobs/a/stop"
        code, answer, _ = await refused(jp_fetch("jupyter-smx", *path.split("/"), method="POST", body=body))
        assert code == 503
        assert ("It may have been accepted with the ID ab12" in answer["cure"]) is doubt
    await cutting.close()


async def ready() -> None:
    """Start nothing: a controller listens already."""


async def no_start() -> None:
    raise unusable(OSError(errno.ENOSPC, "No space left on device"))


async def test_a_controller_that_is_silent_in_a_long_poll_is_said_to_be_so_for_its_seconds(
    extension: SmxServerExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any, **__: Any) -> Any:
        raise HTTPTimeoutError("Timeout during request")

    monkeypatch.setattr(extension.connection._open_client(), "fetch", silent)
    with pytest.raises(UnavailableError, match=r"did not answer for 50 s"):
        await extension.connection.request("GET", "/v1/changes", wait=20.0)
