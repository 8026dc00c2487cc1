"""nginx before a real server: a short read timeout, no websocket, two methods, known headers, gzip, buffers and TLS."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import websocket
from named_pipe import reading_job, write_pipe
from nginx_front import OUR_HEADERS, READ_TIMEOUT, running_front
from server_client import TRIES, ServerClient, job_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests
    from nginx_front import NginxFront

pytestmark = [pytest.mark.heavy("hub"), pytest.mark.timeout(240)]


@pytest.fixture
def pipe() -> Iterator[Path]:
    """Give a named pipe; its folder is outside of /tmp, which jobs do not share with tests."""
    folder = Path(tempfile.mkdtemp(prefix="smx-nginx-", dir="/var/tmp"))
    os.mkfifo(folder / "pipe", 0o600)
    yield folder / "pipe"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def front() -> Iterator[NginxFront]:
    with running_front() as front:
        yield front


@pytest.fixture
def page(front: NginxFront) -> Iterator[ServerClient]:
    client = front.log_in()
    client.start_controller()
    yield client
    client.close()


def read_cursor(response: requests.Response) -> tuple[dict[str, Any], bytes]:
    """Split the answer to a log request: the cursor in its first line, and the bytes of the log."""
    assert response.status_code == 200, response.text
    line, _, content = response.content.partition(b"\n")
    return json.loads(line), content


def test_lists_are_compressed_and_have_the_clock_without_our_headers(page: ServerClient) -> None:
    job_id = page.submit("print('hello')\n", base_name="lists")
    assert page.wait_final(job_id)["status"] == "Completed"
    for path in ("jobs", "pools", "controller", "changes?since=0", f"jobs/{job_id}", f"jobs/{job_id}/logs?cursor=body"):
        response = page.send("GET", f"jupyter-smx/{path}")
        assert response.status_code == 200, response.text
        assert not [name for name in response.headers if OUR_HEADERS.match(name)]
        assert response.headers.get("Content-Encoding") == "gzip"
    state = page.read("jupyter-smx/controller")
    assert state["running"]
    assert abs(state["now"] - time.time()) < 60
    assert state["server_version"]


def test_actions_work_by_get_and_post_alone(page: ServerClient, pipe: Path) -> None:
    job_id = page.submit(reading_job(pipe), base_name="waits")
    without_token = page.session.post(f"{page.base_url}jupyter-smx/jobs/{job_id}/stop", timeout=30)
    assert without_token.status_code == 403
    assert page.send("POST", f"jupyter-smx/jobs/{job_id}/stop", {}).status_code == 200
    assert page.wait_final(job_id)["status"] == "Stopped"
    # A job that retains a warm pool cannot be deleted, so the next one takes the pool over.
    page.wait_final(page.submit("print(1)\n", base_name="next"))
    assert page.send("DELETE", f"jupyter-smx/jobs/{job_id}").status_code == 405
    assert page.send("POST", f"jupyter-smx/jobs/{job_id}/delete", {}).status_code == 204
    assert job_id not in page.jobs()


def test_a_pool_is_extended_and_released_by_post(page: ServerClient) -> None:
    assert page.wait_final(page.submit("print(1)\n", base_name="pool"))["status"] == "Completed"
    (pool,) = page.pools()
    path = f"jupyter-smx/pools/{pool['id']}"
    assert page.send("PATCH", path, {"keep_alive": 1_500}).status_code == 405
    extended = page.send("POST", f"{path}/extend", {"keep_alive": 1_500})
    assert extended.status_code == 200, extended.text
    assert page.pools()[0]["expires_at"] > pool["expires_at"] + 500
    assert page.send("DELETE", path).status_code == 405
    assert page.send("POST", f"{path}/release", {}).status_code == 202


def test_a_log_that_waits_is_cut_and_repeated_with_half_of_the_wait(page: ServerClient, pipe: Path) -> None:
    job_id = page.submit(reading_job(pipe), base_name="waits")
    page.wait_log(job_id, "begun")
    path = f"jupyter-smx/jobs/{job_id}/logs?offset=6&cursor=body&wait="
    begun = time.monotonic()
    cut = page.send("GET", f"{path}20")
    seconds = time.monotonic() - begun
    assert cut.status_code == 504
    assert READ_TIMEOUT <= seconds < 20
    cursor, content = read_cursor(page.send("GET", f"{path}{seconds / 2:.1f}"))
    assert (cursor["offset"], cursor["final"], content) == (6, False, b"")
    writer = threading.Thread(target=write_pipe, args=(pipe, "done"))
    writer.start()
    for _ in range(TRIES):
        cursor, content = read_cursor(page.send("GET", f"{path}{seconds / 2:.1f}"))
        if content:
            break
    writer.join(30)
    assert content == b"done\n"
    page.wait_final(job_id)
    assert read_cursor(page.send("GET", f"{path}0"))[0]["final"] is True


def test_the_websocket_is_refused_and_the_changes_are_read_without_it(page: ServerClient) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException):
        page.connect("api/events/subscribe")
    job_id = page.submit("print(1)\n", base_name="changes")
    page.wait_final(job_id)
    events = page.read("jupyter-smx/changes?since=0")["events"]
    assert [event["job"]["status"] for event in events if event.get("job")][-1] == "Completed"


def test_a_controller_that_starts_slower_than_the_read_timeout_gets_the_job_once(pipe: Path) -> None:
    request = job_request("5" * 32, "print('hello')\n", "slow-start")
    with running_front(waits_for=pipe) as front:
        page = front.log_in()
        begun = time.monotonic()
        assert page.send("POST", "jupyter-smx/jobs", request).status_code == 504
        assert time.monotonic() - begun >= READ_TIMEOUT
        assert page.read("jupyter-smx/controller")["running"] is False
        write_pipe(pipe, "")
        assert page.post_until_answered("jupyter-smx/jobs", request).status_code in {200, 201}
        assert page.wait_final(request["id"])["status"] == "Completed"
        assert list(page.jobs()) == [request["id"]]
        page.close()
