"""Messages to a user without an open page: when they are sent, what they say, and that a real webhook receives them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from fake_controller import FakeController, job, pool

from jupyter_smx.model.records.event import Event
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.server import pending_messages as rules
from jupyter_smx.server.activity import Activity
from jupyter_smx.server.connection import ControllerConnection
from jupyter_smx.server.event_relay import EventRelay
from jupyter_smx.server.message_sender import read_addresses, send
from jupyter_smx.server.pending_messages import GRACE, MAX_PAUSE, POOL_GRACE, Message, PendingMessages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_server.serverapp import ServerApp

    from jupyter_smx.server.app import SmxServerExtension

NOW = 5000.0
LOG = logging.getLogger("test")


class Webhook:
    """A real HTTP server that keeps the bodies of its POST requests."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"json://me:hunter2@127.0.0.1:{self._server.server_port}/secret"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    yield hook
    hook.close()


def ended(number: int, step: SecondaryStatus = SecondaryStatus.COMPLETED, **fields: Any) -> Event:
    row = job(number, step, created_at=NOW - 90, ended_at=NOW, **fields)
    return Event(seq=number, at=NOW, job=row)


def began(number: int) -> Event:
    return Event(seq=0, at=NOW, job=job(number))


def test_what_no_page_read_is_due_after_a_while_in_one_message() -> None:
    box = PendingMessages()
    box.apply_changes([began(1), began(2)], NOW)
    failure = {"failure_type": "KeyError", "failure_line": 14, "message": "hunter2"}
    box.apply_changes([ended(1), ended(2, SecondaryStatus.FAILED, **failure)], NOW)
    assert box.take_due(NOW + GRACE - 1) is None
    assert box.take_due(NOW + GRACE) == Message(
        title="2 jobs ended: 1 completed, 1 failed",
        lines=(
            "train-digits-1 completed after 1 min 30 s",
            "train-digits-2 failed after 1 min 30 s: KeyError, line 14",
        ),
    )
    assert box.take_due(NOW + 10 * GRACE) is None


def test_what_a_page_read_meanwhile_is_never_sent() -> None:
    box = PendingMessages()
    box.apply_changes([began(1), ended(1)], NOW)
    box.mark_read()
    assert box.take_due(NOW + 10 * GRACE) is None
    box.apply_changes([ended(1)], NOW + 1)
    assert box.take_due(NOW + 10 * GRACE) is None


def test_messages_become_rare_while_nobody_comes() -> None:
    box, now, sent = PendingMessages(), NOW, []
    for number in range(1, 7200):
        now += 1
        box.apply_changes([began(number), ended(number)], now)
        if box.take_due(now):
            sent.append(now)
    pauses = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE
    box.mark_read()
    box.apply_changes([began(9999), ended(9999)], now)
    assert box.take_due(now + GRACE) is not None


def test_what_changes_once_more_long_after_its_end_is_no_news() -> None:
    box = PendingMessages()
    box.apply_changes([Event(seq=1, at=NOW, job=job(1, SecondaryStatus.COMPLETED, ended_at=NOW - 3000))], NOW)
    assert box.take_due(NOW + GRACE) is None


def test_a_short_job_is_told_once_and_nothing_is_remembered_for_longer_than_it_could_come_again() -> None:
    box, now = PendingMessages(), NOW
    for number in range(1, 1000):
        now += 1
        short = Event(seq=number, at=now, job=job(number, SecondaryStatus.COMPLETED, created_at=now - 2, ended_at=now))
        box.apply_changes([short], now)
        box.take_due(now)
        box.apply_changes([short], now)
    told = box.take_due(now + MAX_PAUSE)
    assert told is not None
    assert len(told.lines) == len(set(told.lines))
    assert len(box._notified) <= GRACE


async def test_jobs_that_ended_while_nobody_could_tell_are_named(controller: FakeController, eventually: Any) -> None:
    box, connection = PendingMessages(), ControllerConnection()
    for number in (1, 2):
        await controller.happen(job(number))
    relay = asyncio.create_task(EventRelay(connection, Activity(), lambda _: None, LOG, box).run())
    await eventually(lambda: controller.asked("/v1/changes"), "it follows")
    controller.jobs[job(1).id] = job(1, SecondaryStatus.COMPLETED, ended_at=job(1).created_at + 90)
    controller.forgotten_before = controller.seq + 1
    await controller.happen(job(2))
    message = await eventually(lambda: box.take_due(time.time() + GRACE + 1), "a message")
    assert message.lines == ("train-digits-1 completed after 1 min 30 s",)
    relay.cancel()
    await asyncio.gather(relay, return_exceptions=True)
    connection.close()


def test_pools_that_are_gone_are_not_remembered() -> None:
    box = PendingMessages()
    for number in range(3):
        for state in ("Available", "Releasing", "Terminated"):
            box.apply_changes([Event(seq=number, at=NOW, pool=pool(number, state=state))], NOW)
    assert box._pools == {}


def test_a_pool_is_told_once_two_minutes_before_its_end() -> None:
    box = PendingMessages()
    kept = pool(1, idle_since=NOW, expires_at=NOW + 600, jobs_served=9, price_per_hour=0.23)
    box.replace_all([], [kept, pool(2, idle_since=NOW, expires_at=NOW + 170), pool(3, state="InUse", expires_at=None)])
    assert not box.add_ending_pools(NOW + 479)
    assert box.add_ending_pools(NOW + 480)
    assert not box.add_ending_pools(NOW + 481)
    assert box.take_due(NOW + 480 + POOL_GRACE - 1) is None
    message = box.take_due(NOW + 480 + POOL_GRACE)
    assert message == Message(
        title="A warm pool is about to end",
        lines=(
            (
                "The pool local × 1 ends in 2 min; 9 jobs ran on it. An hour more costs $0.23. "
                "Keep it with: jupyter smx extend local-1 15m"
            ),
        ),
    )


def test_a_webhook_gets_the_message_and_no_more_than_ten_lines(webhook: Webhook) -> None:
    message = Message(title="12 jobs ended: 12 completed", lines=tuple(f"job-{number}" for number in range(12)))
    assert send(message, [webhook.url]) == []
    (got,) = webhook.got
    assert got["title"] == message.title
    assert got["message"].splitlines() == [*message.lines[:10], "and 2 more"]


def test_who_refuses_is_told_without_the_address(webhook: Webhook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    webhook.status = 500
    message = Message(title="t", lines=("one",))
    sentences = send(message, ["nonsense hunter2", webhook.url])
    assert sentences == [
        "Address 1 of 2 in message_urls is not supported by apprise.",
        "Address 2 of 2 in message_urls rejected the message.",
    ]
    assert "hunter2" not in caplog.text
    assert "secret" not in caplog.text


def test_addresses_come_from_a_file_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "urls"
    file.write_text("# mine\njson://a\n\n")
    file.chmod(0o644)
    assert read_addresses(["json://b "], str(file), LOG) == ["json://b", "json://a"]
    assert "chmod 600" in caplog.text
    assert read_addresses([], str(tmp_path / "none"), LOG) == []


async def test_a_server_without_a_page_sends_and_one_with_a_page_does_not(
    extension: SmxServerExtension,
    jp_serverapp: ServerApp,
    jp_fetch: Any,
    controller: FakeController,
    webhook: Webhook,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "GRACE", 0.5)
    extension.message_urls = [webhook.url]
    await extension._start_jupyter_server_extension(jp_serverapp)
    await eventually(lambda: any(seen.path == "/v1/changes" for seen in controller.seen))
    await controller.happen(job(1))
    await controller.happen(job(1, SecondaryStatus.COMPLETED))
    await eventually(lambda: len(webhook.got) == 1)
    assert webhook.got[0]["title"] == "1 job ended: 1 completed"
    page = await jp_fetch("jupyter-smx", "doctor")
    assert json.loads(page.body)["server"]["messages"] is True
    assert b"hunter2" not in page.body
    monkeypatch.setattr(rules, "GRACE", 2.0)
    await jp_fetch("jupyter-smx", "changes", params={"since": "0"})
    await controller.happen(job(2))
    happened = await controller.happen(job(2, SecondaryStatus.COMPLETED))
    assert extension.pending_messages is not None
    await eventually(lambda: extension.pending_messages._waiting)
    await jp_fetch("jupyter-smx", "changes", params={"since": str(happened.seq - 1)})
    assert not extension.pending_messages._waiting
    await extension.stop_extension()
    assert len(webhook.got) == 1


async def test_a_missing_apprise_is_said_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    (sentence,) = await asyncio.to_thread(send, Message(title="t", lines=()), ["json://a"])
    assert "jupyter-smx[notify]" in sentence
