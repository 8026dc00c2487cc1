"""Every row of the table of routes over the socket: its status, its refusals, and the numbers that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from records import an_id, finished
from serving import served
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application

from jupyter_smx.controller.api import handlers
from jupyter_smx.controller.api.answer import json_answer
from jupyter_smx.controller.api.base import ApiHandler
from jupyter_smx.model import http_routes
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.http_routes import ROUTES, QueryParameter, Route

if TYPE_CHECKING:
    from pathlib import Path

    from serving import World

    from jupyter_smx.model.http_routes import Action

METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT")
NEEDS_MORE = {"get_job_shell", "get_pool_shell", "download_artifact", "diagnose"}
"""Actions that need hosts, files or an engine with a doctor; their own tests have them."""


def target_of(route: Route[Action], ref: str) -> str:
    return http_routes.controller_path(route.action, ref).replace("{name:path}", "model.tar.gz")


async def test_everything_that_exists_can_be_read_with_the_status_of_its_row(world: World) -> None:
    array = {"id": an_id(7), "spec": world.wish()["spec"], "tasks": [{}]}
    assert (await world.ask("POST", "/v1/arrays", array)).status == 201
    world.books.save(jobs=[finished()])
    for route in ROUTES:
        if route.method == "GET" and route.action not in NEEDS_MORE:
            ref = {"arrays": an_id(7), "engines": "fake"}.get(route.path.partition("/")[0], an_id(1))
            answer = await world.ask("GET", f"{target_of(route, ref)}?text=x")
            assert answer.status == route.status == 200, (route.path, answer.content)


async def test_what_does_not_exist_is_404_on_every_row_with_a_reference(world: World) -> None:
    rows = [route for route in ROUTES if "{ref}" in route.path]
    assert len(rows) > 10
    for route in rows:
        body = {"id": an_id(2), "keep_alive": 60} if route.method != "GET" else None
        allowed = {key: value for key, value in (body or {}).items() if f'"{key}"' in route.body} or None
        answer = await world.ask(route.method, target_of(route, "unknown"), allowed)
        assert (answer.status, answer.json()["code"]) == (404, "ResourceNotFound"), (route.path, answer.content)


async def test_a_method_that_a_path_does_not_have_is_405(world: World) -> None:
    for path in {route.path for route in ROUTES}:
        rows = [route for route in ROUTES if route.path == path]
        for method in {*METHODS} - {route.method for route in rows}:
            answer = await world.ask(method, target_of(rows[0], an_id(1)), b"")
            assert (answer.status, answer.json()["code"]) == (405, "MethodNotAllowed"), (method, path)


def handler(parameter: QueryParameter[Any], query: str) -> ApiHandler:
    start_line = RequestStartLine("GET", f"/v1/jobs?{query}", "HTTP/1.1")
    headers = HTTPHeaders({"Host": "localhost"})
    request = HTTPServerRequest(start_line=start_line, headers=headers, connection=Mock())
    made = ApiHandler(Application(), request)
    made.route = Route("GET", "jobs", "list_jobs", "", "", query=(parameter,))
    return made


NUMBERS = [
    each
    for each in vars(http_routes).values()
    if isinstance(each, QueryParameter) and not isinstance(each.default, str | bool)
]


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda each: each.name)
def test_a_number_keeps_its_type_and_a_larger_one_counts_as_its_maximum(parameter: QueryParameter[float]) -> None:
    name, kind = parameter.name, type(parameter.default)
    assert handler(parameter, "").query(parameter) == parameter.default
    found = [handler(parameter, f"{name}={text}").query(parameter) for text in ("7", "1e999")]
    assert found == [7, parameter.maximum]
    assert {type(value) for value in found} == {kind}
    with pytest.raises(ValidationError) as refusal:
        handler(parameter, f"{name}=-1").query(parameter)
    assert (refusal.value.field, refusal.value.rule) == (name, "It must be 0 or more.")


def test_the_pages_have_their_documented_sizes() -> None:
    sizes = {each: (each.default, each.maximum) for each in (http_routes.LIMIT_JOBS, http_routes.LIMIT_ARRAYS)}
    assert [*sizes.values()] == [(100, 1_000), (20, 200)]


@pytest.mark.parametrize(("text", "value"), [("", True), ("0", False), ("1", True), ("7", True)])
def test_a_flag_is_a_number(text: str, value: bool) -> None:
    flag = http_routes.WITH_TASKS
    assert handler(flag, f"tasks={text}").query(flag) is value


def test_an_action_reads_only_parameters_that_its_row_has() -> None:
    with pytest.raises(LookupError, match="since"):
        handler(http_routes.LIMIT_JOBS, "since=1").query(http_routes.SINCE)


async def test_a_row_that_is_added_with_its_action_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    priority = QueryParameter("priority", 1, "the larger, the sooner", 9)
    row: Route[Any] = Route(
        "PATCH", "jobs/{ref}/line", "move_job", "Move a job in the line.", "", (priority,), status=202
    )
    move = lambda request: json_answer({request.ref: request.query(priority)})  # noqa: E731
    monkeypatch.setattr(handlers, "ROUTES", (*ROUTES, row))
    monkeypatch.setattr(handlers, "ACTIONS", {**handlers.ACTIONS, "move_job": move})
    async with served(tmp_path) as world:
        answer = await world.ask("PATCH", "/v1/jobs/train/line?priority=99", b"")
        assert (answer.status, answer.json()) == (202, {"train": 9})
        assert (await world.ask("GET", "/v1/jobs/train/line")).status == 405
