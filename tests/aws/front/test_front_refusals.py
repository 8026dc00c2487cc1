"""Requests that the front refuses, by raw HTTP: without or with a wrong signature, of pages, too large, or too late."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from jupyter_smx.aws import front
from jupyter_smx.aws.front import ServiceHandler
from jupyter_smx.aws.guard import MAX_BODY
from jupyter_smx.aws.service import Caller, Service

ACCESS_KEY = "SMX0123456789ABCDEFG"
SECRET_KEY = "s" * 40
TARGET = "SageMaker.StopTrainingJob"
BODY = json.dumps({"TrainingJobName": "a"}).encode()


class Stops:
    def __init__(self) -> None:
        self.names: list[str] = []

    def service(self) -> Service:
        return Service("sagemaker", {"StopTrainingJob": self._stop})

    async def _stop(self, members: dict[str, Any], _: Caller) -> dict[str, Any]:
        self.names.append(members["TrainingJobName"])
        return {}


def signed(port: int, *, secret: str = SECRET_KEY, service: str = "sagemaker", **headers: str) -> dict[str, str]:
    request = AWSRequest(
        "POST",
        f"http://127.0.0.1:{port}/",
        headers={"X-Amz-Target": TARGET, "Content-Type": "application/x-amz-json-1.1", "Host": f"127.0.0.1:{port}"}
        | headers,
        data=BODY,
    )
    SigV4Auth(Credentials(ACCESS_KEY, secret), service, "us-east-1").add_auth(request)
    return dict(request.headers.items())


def send(
    port: int, headers: dict[str, str], body: bytes = BODY, method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, "/", skip_host=True, skip_accept_encoding=True)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_a_request_with_a_right_signature_is_answered(start_front: Callable[..., Any]) -> None:
    stops = Stops()
    port = start_front(stops.service()).port
    assert send(port, signed(port))[::2] == (200, b"")
    assert stops.names == ["a"]


Change = Callable[[int, dict[str, str]], dict[str, str]]
FAULTS: dict[str, Change] = {
    "no signature": lambda _, headers: {name: text for name, text in headers.items() if name != "Authorization"},
    "another secret": lambda port, _: signed(port, secret="x" * 40),
    "another key": lambda _, headers: (
        headers | {"Authorization": headers["Authorization"].replace(ACCESS_KEY, "SMX00000000000000000")}
    ),
    "another operation": lambda _, headers: headers | {"X-Amz-Target": "SageMaker.DeleteTrainingJob"},
    "the scope of another service": lambda port, _: signed(port, service="s3"),
    "another host": lambda port, _: signed(port, Host=f"evil.example:{port}"),
    "another port": lambda port, _: signed(port, Host=f"127.0.0.1:{port + 1}"),
    "an origin": lambda _, headers: headers | {"Origin": "http://evil.example"},
    "a site": lambda _, headers: headers | {"Sec-Fetch-Site": "cross-site"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_with_a_fault_is_refused_and_changes_nothing(start_front: Callable[..., Any], fault: str) -> None:
    stops = Stops()
    port = start_front(stops.service()).port
    status, answered, _ = send(port, FAULTS[fault](port, signed(port)))
    assert status == 403
    assert not [name for name in answered if name.startswith("access-control-")]
    assert stops.names == []


def test_a_changed_body_is_refused(start_front: Callable[..., Any]) -> None:
    stops = Stops()
    port = start_front(stops.service()).port
    assert send(port, signed(port), BODY.replace(b'"a"', b'"b"'))[0] == 403
    assert stops.names == []


@pytest.mark.parametrize("seconds", [1200, -1200])
def test_a_clock_that_is_twenty_minutes_off_is_named(start_front: Callable[..., Any], seconds: int) -> None:
    stops = Stops()
    port = start_front(stops.service(), clock=lambda: time.time() + seconds).port
    status, _, body = send(port, signed(port))
    assert (status, stops.names) == (403, [])
    assert b"clock" in body


def test_a_preflight_of_a_page_is_refused_without_headers_that_allow_it(start_front: Callable[..., Any]) -> None:
    port = start_front().port
    headers = {
        "Host": f"127.0.0.1:{port}",
        "Origin": "http://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-amz-target",
    }
    status, answered, _ = send(port, headers, b"", "OPTIONS")
    assert status == 403
    assert not [name for name in answered if name.startswith("access-control-")]


def test_a_request_without_a_head_of_aws_goes_to_s3(start_front: Callable[..., Any]) -> None:
    port = start_front().port
    assert send(port, {"Host": f"localhost:{port}"}, b"", "GET")[::2] == (200, b"s3")


def test_a_body_above_the_limit_is_refused_before_it_is_read(start_front: Callable[..., Any]) -> None:
    port = start_front(Stops().service()).port
    status, _, body = send(port, signed(port), b"x" * (MAX_BODY + 1))
    assert status == 413
    assert b"RequestEntityTooLarge" in body


def test_the_server_does_not_reveal_what_it_is_made_of(start_front: Callable[..., Any]) -> None:
    port = start_front(Stops().service()).port
    assert send(port, signed(port))[1]["server"] == "jupyter_smx"


def test_the_log_of_a_body_that_cannot_be_parsed_has_no_query(
    start_front: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    port = start_front(Stops().service()).port
    headers = signed(port) | {"Content-Type": "multipart/form-data"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/?X-Amz-Signature=abc", BODY, headers)
    assert connection.getresponse().status == 400
    connection.close()
    assert "400 POST /" in caplog.text
    assert "X-Amz-Signature" not in caplog.text


def test_an_unknown_key_is_refused_before_the_body_is_collected(
    start_front: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[object] = []
    monkeypatch.setattr(ServiceHandler, "initialize", lambda *_, **options: collected.append(options))
    port = start_front(Stops().service()).port
    status, answered, body = send(port, FAULTS["another key"](port, signed(port)))
    assert (status, answered["content-type"]) == (403, "application/x-amz-json-1.1")
    assert b"UnrecognizedClientException" in body
    assert collected == []


def test_a_body_that_does_not_come_ends_the_connection(
    start_front: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "BODY_TIMEOUT", 0.01)
    port = start_front(Stops().service()).port
    with pytest.raises(http.client.RemoteDisconnected):
        send(port, signed(port) | {"Content-Length": "1000"})
