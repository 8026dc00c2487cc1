"""Answer the requests that the Jupyter server does not only pass on: streams, files, and its own state.

Routes whose action is not in ``ACTIONS`` are passed on by ``ControllerHandler.pass_on``.
"""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import ErrorBody, UnavailableError, from_body
from jupyter_smx.model.http_routes import controller_path
from jupyter_smx.model.records.event import Changes
from jupyter_smx.model.records.job import Job
from jupyter_smx.server.aws_front import running_front_url
from jupyter_smx.server.connection import NoControllerError
from jupyter_smx.server.handlers.artifact_stream import BYTES_TYPE, file_name
from jupyter_smx.server.handlers.base import VERSION, quote_segment
from jupyter_smx.server.handlers.file_locations import ContentsRoot, locate_files, paths_of
from jupyter_smx.server.handlers.log_cursor import cursor_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tornado.httpclient import HTTPResponse

    from jupyter_smx.model.http_routes import Action, ServerAction
    from jupyter_smx.server.handlers.base import ControllerHandler

_TEXT = "text/plain; charset=utf-8"


async def get_controller_state(handler: ControllerHandler) -> None:
    """Report whether a controller runs, its version and its newest number; a missing controller is no error."""
    connection = handler.smx.connection
    server = {
        # These two are the headers of every answer, which some proxies remove.
        "now": time.time(),
        "server_version": VERSION,
        "records_note": controller_launch.records_note(),
        "records_id": controller_launch.records_id(),
        "aws_url": await asyncio.to_thread(running_front_url),
    }
    try:
        answer = await connection.request("GET", controller_path("describe_controller"))
    except NoControllerError:
        problem = connection.find_problem()
        body = {"problem": msgspec.to_builtins(problem.body())} if problem else {}
        handler.finish({"running": False, **server, **body})
        return
    if answer.code == HTTPStatus.OK:
        handler.finish({"running": True, **server, **json.loads(answer.body)})
    else:
        handler.finish_response(answer)


async def start_controller(handler: ControllerHandler) -> None:
    """Start a controller unless one runs."""
    await handler.smx.connection.ensure()
    handler.smx.wake()
    await get_controller_state(handler)


async def locate_job_files(handler: ControllerHandler) -> None:
    """Return for each path in a job's record if it exists, and its name in this server's file browser."""
    (ref,) = handler.path_args
    answer = await handler.smx.connection.request("GET", controller_path("get_job", quote_segment(ref)))
    if answer.code != HTTPStatus.OK:
        handler.finish_response(answer)
        return
    shown = ContentsRoot.from_manager(handler.contents_manager)
    paths = paths_of(msgspec.json.decode(answer.body, type=Job))
    handler.finish(msgspec.json.encode(await asyncio.to_thread(locate_files, paths, shown)))


async def read_log(handler: ControllerHandler) -> None:
    """Forward the bytes of a log as text, which browsers never render as a page.

    With ``cursor=body`` a line of JSON precedes the bytes.
    """
    handler.set_header("X-Content-Type-Options", "nosniff")
    has_cursor = handler.get_query_argument("cursor", "") == "body"
    answer = await handler.request_controller()
    if has_cursor and answer.code == HTTPStatus.OK:
        handler.forward_headers(answer.headers)
        # Not text: a proxy may change the encoding of text, and the cursor counts bytes.
        handler.finish(cursor_line(answer.headers) + answer.body, set_content_type=BYTES_TYPE)
    else:
        handler.finish_response(answer, _TEXT)


async def download_log(handler: ControllerHandler) -> None:
    """Stream a log as an attachment with the given ``name``: a job's output is never shown as a page."""
    (ref,) = handler.path_args
    await handler.pass_on_file(handler.upstream_path(), file_name(handler.get_query_argument("name", f"{ref}.log")))


async def download_artifact(handler: ControllerHandler) -> None:
    """Stream a file as an attachment: a job's output is never shown as a page of this server."""
    _, name = handler.path_args
    await handler.pass_on_file(handler.upstream_path(), file_name(name))


async def list_changes(handler: ControllerHandler) -> None:
    """Return the changes after ``since``; without a controller, the instruction to list everything again."""
    # A visible page sends this request about every 30 s. The data folder may be on a slow disk.
    handler.set_header("X-Smx-Aws", await asyncio.to_thread(running_front_url))
    try:
        await handler.pass_on()
    except NoControllerError:
        handler.finish(msgspec.json.encode(Changes(events=(), seq=0, reset=True)))


async def diagnose(handler: ControllerHandler) -> None:
    """Return the reports of this server and the controller; a missing controller is no error."""
    controller, problem = None, ""
    try:
        answer = await handler.smx.connection.request("GET", controller_path("diagnose"))
        if answer.code == HTTPStatus.OK:
            controller = json.loads(answer.body)
        else:
            problem = _sentence(answer)
    except (UnavailableError, ValueError) as error:
        problem = str(error)
    page = {"server": handler.smx.diagnostics(), "controller": controller, "problem": problem}
    handler.finish(json.dumps(page))


def _sentence(answer: HTTPResponse) -> str:
    """Return the message of a refusal."""
    try:
        return str(from_body(msgspec.json.decode(answer.body, type=ErrorBody)))
    except msgspec.DecodeError:
        return f"The controller answered {answer.code}, and nothing that can be read."


ACTIONS: Mapping[Action | ServerAction, Callable[[ControllerHandler], Awaitable[None]]] = {
    "get_controller_state": get_controller_state,
    "start_controller": start_controller,
    "locate_job_files": locate_job_files,
    "read_log": read_log,
    "download_log": download_log,
    "download_artifact": download_artifact,
    "list_changes": list_changes,
    "diagnose": diagnose,
}
