"""Whatever is sent to the socket: an answer with a sentence, nothing half-created, and the next one is served."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import an_id
from serving import World

from jupyter_smx.controller.api import handlers
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.singleton import ListenSocket
from jupyter_smx.model.errors import RefusedError, SmxError
from jupyter_smx.model.spec.job_spec import MAX_SPEC_BYTES, JobSpec
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def is_a_refusal(answer: Any, status: int = 400) -> dict[str, Any]:
    """Look at an answer: the one form of all refusals, and nothing of our insides."""
    body: dict[str, Any] = answer.json()
    assert answer.status == status, body
    assert body["message"]
    assert "Traceback" not in answer.content.decode()
    return body


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"keep_alive": -1}, "keep_alive"),
    ({"keep_alive": 1.5}, "spec.keep_alive"),
    ({"keep_alive": 10**30}, "keep_alive"),
    ({"keep_alive": True}, "spec.keep_alive"),
    ({"max_run": 0}, "max_run"),
    ({"instance_groups": []}, "instance_groups"),
    ({"instance_groups": [{"instance_count": 0}]}, "instance_count"),
    ({"instance_groups": [{"instance_count": 10**9}]}, "instance_count"),
    ({"instance_groups": [{"instance_type": "ml.m5.xlrge"}]}, "instance_type"),
    ({"instance_groups": [{"colour": "red"}]}, "spec.instance_groups[0]"),
    ({"hyperparameters": {"lr": 0.1}}, "spec.hyperparameters[...]"),
    ({"hyperparameters": {"a=b": "1"}}, "hyperparameters"),
    ({"hyperparameters": {"": "1"}}, "hyperparameters"),
    ({"hyperparameters": {"a": "x\0y"}}, "hyperparameters"),
    ({"hyperparameters": {str(n): "" for n in range(101)}}, "hyperparameters"),
    ({"hyperparameters": {"a": "x" * 2501}}, "hyperparameters"),
    ({"environment": {"A": "x\0y"}}, "environment"),
    ({"environment": {"A=B": "x"}}, "environment"),
    ({"environment": {"1A": "x"}}, "environment"),
    ({"base_name": "a b"}, "name"),
    ({"base_name": "../../etc"}, "name"),
    ({"base_name": "a\nb"}, "name"),
    ({"base_name": "x" * 64}, "name"),
    ({"base_name": "--wait"}, "name"),
    ({"base_name": "naïve"}, "name"),
    ({"base_name": "🚀"}, "name"),
    ({"channels": [{"name": "../x", "source": "/x"}]}, "channels"),
    ({"channels": [{"name": "a", "source": "/a"}, {"name": "a", "source": "/b"}]}, "channels"),
    ({"channels": [{"name": "a", "source": "/a", "colour": 1}]}, "spec.channels[0]"),
    ({"outputs": [{"name": "../x", "path": "/opt/ml/x"}]}, "outputs"),
    ({"outputs": [{"name": "a", "path": "/opt/ml/x"}, {"name": "a", "path": "/opt/ml/y"}]}, "outputs"),
    ({"outputs": [{"name": "a", "path": "/home/me/reports"}]}, "outputs"),
    ({"source": None}, "spec.source"),
    ({"kind": "tune"}, "spec.kind"),
    ({"submitted_at": "now"}, "spec.submitted_at"),
    ({"send": {"path": "/x"}}, "spec.send"),
    ({"role": "a\0b"}, "role"),
]
"""What is wrong in a request, and the field that the answer names."""


async def test_a_wish_that_cannot_be_honoured_names_its_field_and_makes_nothing(world: World) -> None:
    for change, field in REFUSALS:
        body = is_a_refusal(answer := await world.submit(**change), answer_status(change))
        assert body["field"] == field, (change, body)
        plan = await world.ask("POST", "/v1/plan", {"spec": world.wish(**change)["spec"]})
        assert (plan.status, plan.json()["field"]) == (answer.status, field), change
        assert (world.books.jobs, world.books.clusters) == ({}, {}), change
        assert world.service.store.summaries() == [], change


def answer_status(change: dict[str, Any]) -> int:
    """Give 422 for what the administrator or a cap forbids, 400 for what is wrong in itself."""
    groups = change.get("instance_groups") or [{}]
    return 422 if groups[0].get("instance_count", 0) > 1000 or change.get("keep_alive", 0) > 3600 else 400


UNREADABLE = [
    b"", b"{", b"[]", b"null", b'"x"', b"1e999", b"\xff\xfe", b"{}" * 2, b"[" * 100_000, b'{"id": "' + b"a" * 10_000,
]  # fmt: skip


async def test_a_body_that_is_none_of_ours_is_said(world: World) -> None:
    for method, target in (("POST", "/v1/jobs"), ("POST", "/v1/plan"), ("PATCH", "/v1/pools/x")):
        for body in UNREADABLE:
            refusal = is_a_refusal(await world.ask(method, target, body))
            assert "cannot be read" in refusal["message"], (method, target, body[:20])


async def test_a_field_that_nobody_knows_is_refused_and_never_ignored(world: World) -> None:
    for method, target, body in (
        ("POST", "/v1/jobs", world.wish() | {"colour": "red"}),
        ("POST", "/v1/plan", {"spec": world.wish()["spec"], "colour": "red"}),
        ("PATCH", "/v1/pools/x", {"keep_alive": 60, "colour": "red"}),
    ):
        assert "colour" in is_a_refusal(await world.ask(method, target, body))["message"]
    assert world.books.jobs == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(JobSpec.__struct_fields__)


@settings(max_examples=10 * settings.default.max_examples, suppress_health_check=list(HealthCheck))
@given(change=st.dictionaries(fields, json_values, min_size=1, max_size=3))
def test_no_wish_of_any_shape_is_a_mistake_of_ours(change: dict[str, Any]) -> None:
    """Every field with every JSON value: a wish, or a sentence of ours; never another error."""
    wish = {"kind": "train", "source": "x = 1", "base_name": "train"} | change
    try:
        body = msgspec.json.encode(wish)
        spec = msgspec.json.decode(body, type=JobSpec)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return
    try:
        checks.check(spec, Limits(), {"local"})
        checks.check_hosts(spec, Limits())
    except SmxError:
        return


REFS = [
    "%00", "%ff", "..", "%2e%2e", "%2e%2e%2f%2e%2e", "a%2Fb", "%27%3B%20DROP%20TABLE%20jobs", "--wait", "%F0%9F%9A%80",
    "%25", "_", "x" * 5000, "%0a", "%22", "*", "%5C",
]  # fmt: skip


ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/jobs/{}", None),
    ("POST", "/v1/jobs/{}/stop", b"{}"),
    ("POST", "/v1/jobs/{}/interrupt", b"{}"),
    ("DELETE", "/v1/jobs/{}", None),
    ("GET", "/v1/jobs/{}/logs", None),
    ("GET", "/v1/jobs/{}/artifacts/model.tar.gz", None),
    ("PATCH", "/v1/pools/{}", {"keep_alive": 60}),
    ("DELETE", "/v1/pools/{}", None),
    ("GET", "/v1/jobs?before={}", None),
    ("GET", "/v1/jobs?status={}", None),
)


async def test_names_that_are_none_are_not_found_or_refused_on_every_route(world: World) -> None:
    for ref, (method, target, body) in itertools.product(REFS, ROUTES):
        answer = await world.ask(method, target.format(ref), body)
        allowed = (200, 400) if "?" in target else (400, 404)
        assert answer.status in allowed, (method, target, ref[:50], answer.content)
        assert answer.json()
    assert (await world.ask("GET", "/v1/")).status == 200


NUMBERS = {"": 200, "0": 200, "1_0": 200, "1e999": 200, "9" * 400: 200, "-1": 400, "nan": 400, "x": 400, "0x10": 400}


async def test_numbers_of_a_query_are_numbers_or_refused(world: World) -> None:
    for value, status in NUMBERS.items():
        for field, target in (("limit", "/v1/jobs?limit={}"), ("since", "/v1/changes?since={}")):
            answer = await world.ask("GET", target.format(value))
            assert answer.status == status, (field, value[:20], answer.content)
            if status != 200:
                assert field in is_a_refusal(answer)["message"]


def raw(path: Path, *pieces: bytes) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(10)
    made.connect(str(path))
    for piece in pieces:
        made.sendall(piece)
    return made


NONSENSE = [
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/ HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /v1/ HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000,
]


async def test_what_is_no_http_closes_its_own_connection_only(world: World) -> None:
    def speak(said: bytes) -> bytes:
        with raw(world.socket) as connection:
            try:
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := connection.recv(65_536):
                    answer += piece
            except OSError:
                return b""
            return answer

    for said in NONSENSE:
        answer = await asyncio.to_thread(speak, said)
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200")), (said[:50], answer[:200])
        assert (await world.ask("GET", "/v1/")).status == 200


async def test_who_sends_slowly_holds_nobody_up_and_is_hung_up_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slowloris: a hundred connections that never end their request."""
    assert 0 < handlers.BODY_WITHIN <= 60
    assert world.service.server.conn_params.body_timeout == handlers.BODY_WITHIN
    monkeypatch.setattr(world.service.server.conn_params, "body_timeout", 0.3)
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    slow = [await asyncio.to_thread(raw, world.socket, head if number % 2 else head[:20]) for number in range(100)]
    times = []
    for _ in range(20):
        start = time.perf_counter()
        assert (await world.ask("GET", "/v1/jobs")).status == 200
        times.append(time.perf_counter() - start)
    assert sorted(times)[10] < 0.2, times
    for connection in slow[1::2]:
        assert await asyncio.to_thread(connection.recv, 1) == b"", "who never sends the body is hung up on"
    for connection in slow:
        connection.close()


async def test_a_wish_of_the_greatest_size_is_taken_whole_and_one_byte_more_is_not(world: World) -> None:
    room = MAX_SPEC_BYTES - len(json.dumps(world.wish(source="")).encode())
    source = "x" * min(room, 4 * 2**20)
    start = time.perf_counter()
    assert (await world.submit(source=source)).status == 201
    assert time.perf_counter() - start < 5
    found = world.service.store.job(an_id(1))
    assert found is not None
    assert found.spec.source == source
    # Blanks after JSON mean nothing, so these two differ in nothing but their size.
    second, third = (json.dumps(world.wish(number)).encode() for number in (2, 3))
    assert (await world.ask("POST", "/v1/jobs", second.ljust(MAX_SPEC_BYTES))).status == 201
    refused = await world.ask("POST", "/v1/jobs", third.ljust(MAX_SPEC_BYTES + 1))
    assert is_a_refusal(refused, 413)["rule"] == "The maximum is 5.0 MiB."
    assert set(world.books.jobs) == {an_id(1), an_id(2)}


async def test_a_job_with_the_name_of_another_gets_all_its_digits(world: World) -> None:
    first = await world.ask("POST", "/v1/jobs", world.wish() | {"id": "0123456789ab" + "0" * 20})
    second = await world.ask("POST", "/v1/jobs", world.wish() | {"id": "0123456789ab" + "1" * 20})
    assert (first.status, second.status) == (201, 201)
    names = [answer.json()["name"] for answer in (first, second)]
    assert len(set(names)) == 2
    for name, job in zip(names, ("0" * 20, "1" * 20), strict=True):
        assert (await world.ask("GET", f"/v1/jobs/{name}")).json()["id"].endswith(job)


async def test_a_controller_that_was_replaced_leaves_although_nobody_asks_it_anything(tmp_path: Path) -> None:
    world = World(tmp_path)
    running = asyncio.create_task(world.service.run(ListenSocket(world.socket), world.stop))
    # When it has nothing left to write, no write can tell it.
    await eventually(
        lambda: world.service._retention._writes_moved == world.service.store.writes > 1, "it has tidied up"
    )
    newer = Store.open(tmp_path / "smx.sqlite")
    await asyncio.wait_for(running, 10)
    newer.close()


async def test_an_engine_that_is_not_installed_is_refused_before_anything_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RefusedError("--engine: Docker is not installed on this machine.", field="engine", value="docker")

    monkeypatch.setattr(world.engine, "check_installed", refuse, raising=False)
    seq = world.books.store.last_seq()
    array = {"id": an_id(2), "spec": world.wish()["spec"], "tasks": [{}, {}]}
    for target, body in (("jobs", world.wish()), ("arrays", array), ("plan", {"spec": array["spec"]})):
        assert is_a_refusal(await world.ask("POST", f"/v1/{target}", body), 422)["field"] == "engine"
    assert (world.books.jobs, world.books.clusters, world.books.store.last_seq()) == ({}, {}, seq)
