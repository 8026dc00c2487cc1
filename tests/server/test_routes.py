"""What reaches the controller, and what comes back from it."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from browser import controller_state
from fake_controller import job, pool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routes import ROUTES, Route
from tornado.httpclient import HTTPClientError

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import ErrorBody, ResourceNotFoundError
from jupyter_smx.server.handlers.artifact_stream import file_name
from jupyter_smx.server.handlers.base import quote_segment

if TYPE_CHECKING:
    from fake_controller import FakeController


async def refused(work: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(HTTPClientError) as caught:
        await work
    return caught.value.code, json.loads(caught.value.response.body)


async def test_a_request_reaches_the_controller_with_the_arguments_it_knows_and_no_credential(
    jp_fetch: Any, controller: FakeController
) -> None:
    for route in ROUTES:
        controller.seen.clear()
        await check_request(route, jp_fetch, controller)


async def check_request(route: Route, jp_fetch: Any, controller: FakeController) -> None:
    upstream_verb = route.upstream_verb or route.verb
    controller.answer(upstream_verb, route.upstream, 200, route.answer)
    answer = await jp_fetch(
        "jupyter-smx",
        route.path,
        method=route.verb,
        params=route.query,
        body=route.body,
        allow_nonstandard_methods=True,
    )
    assert answer.code == 200, str(route)
    assert abs(float(answer.headers["X-Smx-Now"]) - time.time()) < 60, str(route)
    (seen,) = controller.asked(route.upstream)
    assert (seen.method, seen.query) == (upstream_verb, route.upstream_query), str(route)
    assert {"Authorization", "Cookie"}.isdisjoint(seen.headers), str(route)
    if route.body and upstream_verb == route.verb:
        assert seen.body == route.body.encode(), str(route)


async def test_lists_come_back_as_the_controller_wrote_them(jp_fetch: Any, controller: FakeController) -> None:
    await controller.happen(job())
    await controller.happen(pool())
    jobs = json.loads((await jp_fetch("jupyter-smx", "jobs")).body)["jobs"]
    pools = json.loads((await jp_fetch("jupyter-smx", "pools")).body)["pools"]
    assert [found["name"] for found in jobs] == ["train-digits-1"]
    assert [found["state"] for found in pools] == ["Available"]


@pytest.mark.parametrize(("verb", "path"), [("GET", ""), ("POST", "/stop"), ("POST", "/rerun")])
async def test_a_record_has_no_password_of_a_url_and_is_whole_otherwise(
    jp_fetch: Any, controller: FakeController, verb: str, path: str
) -> None:
    url = "sftp://me:hunter2@host/x"
    spec: dict[str, Any] = {"source": f"open({url!r})", "checkpoint": url, "channels": [{"name": "a", "source": url}]}
    spec |= {"environment": {"DB": url, "HF_TOKEN": "hunter3"}, "hyperparameters": {"db": url}, "arguments": [url]}
    record = {
        "id": "a",
        "name": "fit-a",
        "spec": spec,
        "cost": 0.1,
        "failure_reason": "no",
        "outputs": [],
        "at": 1763800000.123456,
    }
    controller.answer(verb, f"/v1/jobs/a{path}", 200, json.dumps(record).encode())
    body = None if verb == "GET" else '{"id": "b"}'
    answer = await jp_fetch("jupyter-smx", f"jobs/a{path}", method=verb, body=body)
    shown = "sftp://me:…@host/x"
    assert json.loads(answer.body) == {
        **record,
        "spec": {
            **spec,
            "checkpoint": shown,
            "channels": [{"name": "a", "source": shown}],
            "environment": {"DB": shown, "HF_TOKEN": ""},
            "hyperparameters": {"db": shown},
            "arguments": [shown],
        },
    }


async def test_a_submission_is_201_and_a_deletion_has_no_body(jp_fetch: Any, controller: FakeController) -> None:
    submitted = await jp_fetch("jupyter-smx", "jobs", method="POST", body='{"id": "abc", "spec": {}}')
    controller.answer("DELETE", "/v1/jobs/abc", 204)
    deleted = await jp_fetch("jupyter-smx", "jobs", "abc", method="DELETE")
    assert (submitted.code, deleted.code, deleted.body) == (201, 204, b"")


async def test_a_log_comes_as_raw_bytes_with_its_cursor(jp_fetch: Any, controller: FakeController) -> None:
    raw = b"\x1b[31mepoch 1\xff\r\n<script>"
    controller.answer(
        "GET", "/v1/jobs/a/logs", 200, raw, X_Smx_Offset="18", X_Smx_Total="90", X_Smx_Final="0", X_Smx_Host="algo-1"
    )
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "logs", params={"offset": "0"})
    assert answer.body == raw
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    cursor = {name: answer.headers[f"X-Smx-{name}"] for name in ("Offset", "Total", "Final", "Host")}
    assert cursor == {"Offset": "18", "Total": "90", "Final": "0", "Host": "algo-1"}


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
async def test_an_artefact_arrives_whole_and_is_never_shown_as_a_page(
    size: int, jp_fetch: Any, controller: FakeController
) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    controller.answer("GET", "/v1/jobs/a/artifacts/outputs/x.html", 200, content, Content_Type="text/html")
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "artifacts", "outputs", "x.html")
    assert answer.body == content
    assert answer.headers["Content-Length"] == str(size)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''x.html"


async def test_a_slow_browser_slows_the_artefact_down_and_one_that_leaves_ends_it(
    jp_base_url: str, jp_auth_header: dict[str, str], http_server_client: Any, controller: FakeController
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
    credential = jp_auth_header["Authorization"]
    path = f"{jp_base_url}jupyter-smx/jobs/a/artifacts/endless"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {credential}\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    endless = controller.endless
    first = [asyncio.ensure_future(event.wait()) for event in (endless.waits, endless.over)]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    assert endless.sent < endless.limit / 4
    writer.transport.abort()
    await asyncio.wait_for(endless.over.wait(), 20)
    assert endless.sent < endless.limit
    for task in first:
        task.cancel()


async def test_an_artefact_that_does_not_exist_is_404_with_the_controllers_sentence(
    jp_fetch: Any, controller: FakeController
) -> None:
    controller.refuse("GET", "/v1/jobs/a/artifacts/model.tar.gz", 404, "ResourceNotFound", "It wrote no model.")
    code, body = await refused(jp_fetch("jupyter-smx", "jobs", "a", "artifacts", "model.tar.gz"))
    assert (code, body["message"]) == (404, "It wrote no model.")


async def test_an_artefact_outside_the_jobs_folder_is_never_asked_for(
    http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str], controller: FakeController
) -> None:
    for name in ("../../../etc/passwd", "outputs/../../x", "/etc/passwd", "a//b", "."):
        quoted = name.replace("/", "%2F").replace(".", "%2E")
        url = f"{jp_base_url}jupyter-smx/jobs/a/artifacts/{quoted}"
        with pytest.raises(HTTPClientError) as caught:
            await http_server_client.fetch(url, headers=jp_auth_header)
        assert caught.value.code == 404, name
        assert not [seen for seen in controller.seen if "artifacts" in seen.path], name


async def test_a_name_that_no_job_can_have_is_404_with_a_sentence(
    http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str], controller: FakeController
) -> None:
    for path in ("", "/logs", "/logs/search", "/logs/whole", "/usage", "/diff", "/places"):
        work = http_server_client.fetch(f"{jp_base_url}jupyter-smx/jobs/a%00b{path}", headers=jp_auth_header)
        code, body = await refused(work)
        assert (code, body["code"], body["field"]) == (404, "ResourceNotFound", "ref"), path
        assert controller.seen == [], path


async def test_a_refusal_keeps_its_status_and_its_sentence(jp_fetch: Any, controller: FakeController) -> None:
    message = "keep_alive: 9999999 is more than the cap."
    codes = {400: "ValidationException", 404: "ResourceNotFound", 409: "ResourceInUse", 422: "ResourceLimitExceeded"}
    for status, code in codes.items():
        controller.refuse("POST", "/v1/jobs", status, code, message)
        found, body = await refused(jp_fetch("jupyter-smx", "jobs", method="POST", body='{"id": "a", "spec": {}}'))
        assert (found, body["code"], body["message"]) == (status, code, message)


async def test_a_body_that_is_no_object_never_reaches_the_controller(jp_fetch: Any, controller: FakeController) -> None:
    for body in ("", "no json", "[]", "3"):
        code, answer = await refused(jp_fetch("jupyter-smx", "pools", "p", method="PATCH", body=body))
        assert (code, answer["field"]) == (400, "body"), body
        assert controller.seen == [], body


async def test_a_wait_that_is_no_number_is_refused_with_its_name(jp_fetch: Any, controller: FakeController) -> None:
    for wait in ("long", "nan"):
        code, answer = await refused(jp_fetch("jupyter-smx", "changes", params={"since": "1", "wait": wait}))
        assert (code, answer["field"], answer["value"]) == (400, "wait", wait)
        assert controller.seen == [], wait


async def test_a_controller_that_has_left_is_no_failure_and_nothing_is_started(
    jp_fetch: Any, started_controllers: list[Any]
) -> None:
    state = await controller_state(jp_fetch)
    changes = await jp_fetch("jupyter-smx", "changes", params={"since": "7"})
    assert state == {"running": False, "records_note": ""}
    assert (changes.code, json.loads(changes.body)) == (200, {"events": [], "seq": 0, "reset": True})
    assert started_controllers == []


async def test_a_controller_that_breaks_off_is_not_told_as_one_that_has_left(
    jp_fetch: Any, controller: FakeController
) -> None:
    controller.answer("GET", "/v1/", 200, b"{}", Content_Length="999")
    code, body = await refused(jp_fetch("jupyter-smx", "controller"))
    assert (code, body["code"]) == (503, "ServiceUnavailable")


async def test_a_controller_that_runs_says_so_with_its_number(jp_fetch: Any, controller: FakeController) -> None:
    controller.answer("GET", "/v1/", 200, {"version": "1.2", "seq": 41})
    state = await controller_state(jp_fetch)
    assert state == {"running": True, "version": "1.2", "seq": 41, "records_note": ""}


async def test_without_a_controller_the_answer_is_503_with_a_sentence_and_nothing_is_started(
    jp_fetch: Any, started_controllers: list[Any]
) -> None:
    for path in ("jobs", "jobs/a", "pools", "jobs/a/artifacts/m"):
        code, body = await refused(jp_fetch("jupyter-smx", path))
        assert (code, body["code"], body["transient"]) == (503, "ServiceUnavailable", True), path
        assert body["message"] == "No controller is running.", path
        assert started_controllers == [], path


async def test_the_doctor_answers_without_a_controller_too(jp_fetch: Any) -> None:
    page = json.loads((await jp_fetch("jupyter-smx", "doctor")).body)
    assert page["controller"] is None
    assert "No controller is running" in page["problem"]
    assert page["server"]["jobs_in_progress"] == 0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (ErrorBody(code="Fenced", message="Another controller has taken over.", cure="Ask it."), "taken over. Ask it."),
        (b"<html>", "The controller answered 503"),
    ],
    ids=["a refusal", "nonsense"],
)
async def test_a_controller_that_refuses_to_be_examined_is_a_problem_and_no_controller(
    body: ErrorBody | bytes, says: str, jp_fetch: Any, controller: FakeController
) -> None:
    controller.answer("GET", "/v1/doctor", 503, body)
    page = json.loads((await jp_fetch("jupyter-smx", "doctor")).body)
    assert page["controller"] is None
    assert says in page["problem"]
    assert page["server"]["jobs_in_progress"] == 0


async def test_a_submission_starts_a_controller_once(jp_fetch: Any, started_controllers: list[Any]) -> None:
    for number in range(2):
        body = json.dumps({"id": f"{number:012x}", "spec": {}})
        answer = await jp_fetch("jupyter-smx", "jobs", method="POST", body=body)
        assert answer.code == 201
    assert len(started_controllers) == 1


async def test_a_controller_that_does_not_come_up_is_503_with_its_last_words(
    jp_fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = controller_launch.start_controller

    def start() -> Any:
        return real("/bin/false")

    monkeypatch.setattr(controller_launch, "start_controller", start)
    controller_launch.log_path().write_text("sqlite says: the disk is full\n")
    code, body = await refused(jp_fetch("jupyter-smx", "jobs", method="POST", body='{"id": "a", "spec": {}}'))
    assert code == 503
    assert "the disk is full" in body["message"]


async def test_an_answer_that_breaks_off_is_503_and_not_a_traceback(jp_fetch: Any, controller: FakeController) -> None:
    controller.answer("GET", "/v1/pools", 200, b"{}", Content_Length="999")
    code, body = await refused(jp_fetch("jupyter-smx", "pools"))
    assert (code, body["code"]) == (503, "ServiceUnavailable")
    assert "did not answer" in body["message"]


@given(st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_quoted_reference_is_one_segment_of_a_path(ref: str) -> None:
    try:
        quoted = quote_segment(ref)
    except (ResourceNotFoundError, UnicodeEncodeError):
        return
    assert not set("/?#% ") & set(quoted.replace("%", "", quoted.count("%"))) - set("0123456789ABCDEF")
    assert "/" not in quoted
    assert quoted not in {".", ".."}


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b.csv", "\x00"]), min_size=1).map("/".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_name_of_an_artefact_never_climbs(name: str) -> None:
    try:
        last = file_name(name)
    except ResourceNotFoundError:
        return
    assert ".." not in name.split("/")
    assert last == name.rsplit("/", 1)[-1]
