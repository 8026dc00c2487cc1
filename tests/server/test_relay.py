"""News on Jupyter's event bus: that it comes, in order, through restarts, and that it says nothing it should not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest_asyncio
from fake_controller import FakeController, job, pool

from jupyter_smx import controller_launch
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.server import event_relay
from jupyter_smx.server.bus_events import SCHEMA_ID
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    import pytest
    from jupyter_server.serverapp import ServerApp

    from jupyter_smx.server.app import SmxServerExtension

Next = "Callable[[], Awaitable[dict[str, Any]]]"


@pytest_asyncio.fixture
async def next_event(jp_ws_fetch: Any) -> AsyncIterator[Callable[[], Awaitable[dict[str, Any]]]]:
    """The next event of ours that a browser gets."""
    socket = await jp_ws_fetch("api", "events", "subscribe")

    async def read() -> dict[str, Any]:
        while True:
            event = json.loads(await socket.read_message())
            if event["schema_id"] == SCHEMA_ID:
                return event

    yield read
    socket.close()


async def test_a_browser_hears_of_a_change_by_its_number(
    next_event: Next, controller: FakeController, following: SmxServerExtension
) -> None:
    del following
    assert (await next_event())["kind"] == "reset"
    happened = await controller.happen(job(message="/secret/path: KeyError('password')"))
    event = await next_event()
    assert (event["seq"], event["kind"], event["name"], event["status"]) == (
        happened.seq,
        "job",
        "train-digits-1",
        "InProgress",
    )
    assert "secret" not in json.dumps(event)


async def test_a_pool_that_becomes_warm_is_news(
    next_event: Next, controller: FakeController, following: SmxServerExtension
) -> None:
    del following
    await next_event()
    await controller.happen(pool())
    event = await next_event()
    assert (event["kind"], event["name"], event["status"]) == ("pool", "local-1", "Available")


async def test_a_storm_of_changes_becomes_few_events_and_the_last_word_is_kept(
    next_event: Next, controller: FakeController, following: SmxServerExtension
) -> None:
    del following
    await next_event()
    for step in (SecondaryStatus.STARTING, SecondaryStatus.TRAINING, SecondaryStatus.UPLOADING):
        for number in range(100):
            await controller.happen(job(number, step))
    last = await controller.happen(job(7, SecondaryStatus.COMPLETED))
    heard = [await next_event()]
    while heard[-1]["seq"] < last.seq:
        heard.append(await next_event())
    assert heard[-1]["status"] == "Completed"
    assert len(heard) < 250
    assert [event["seq"] for event in heard] == sorted(event["seq"] for event in heard)


async def test_a_controller_that_comes_later_is_found_without_being_asked_for(
    next_event: Next, started_controllers: list[Any], following: SmxServerExtension
) -> None:
    del following
    late = FakeController()
    late.seq = 41
    late.listen()
    event = await next_event()
    assert (event["kind"], event["seq"]) == ("reset", 41)
    assert started_controllers == []
    await late.close()


async def test_news_goes_on_after_a_controllers_restart(
    next_event: Next, started_controllers: list[Any], controller: FakeController, following: SmxServerExtension
) -> None:
    del following
    await next_event()
    await controller.close()
    again = FakeController()
    again.seq = controller.seq + 10
    again.listen()
    assert (await next_event())["kind"] == "reset"
    await again.happen(job())
    assert (await next_event())["seq"] == controller.seq + 11
    assert started_controllers == []
    await again.close()


async def test_a_controller_that_left_with_nothing_to_do_is_not_replaced(
    next_event: Next,
    started_controllers: list[Any],
    controller: FakeController,
    following: SmxServerExtension,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Any,
) -> None:
    monkeypatch.setattr(event_relay, "SOCKET_POLL", 0.01)
    await next_event()
    await controller.happen(job(step=SecondaryStatus.COMPLETED))
    await next_event()
    looks: list[Path] = []
    real = controller_launch.socket_path

    def counted() -> Path:
        looks.append(real())
        return looks[-1]

    monkeypatch.setattr(controller_launch, "socket_path", counted)
    await controller.close()
    await eventually(lambda: len(looks) > 20, "the relay looks for a controller")
    assert started_controllers == []
    assert following.current_activity() is None


async def test_a_controller_lost_under_a_running_job_is_replaced(
    next_event: Next, started_controllers: list[Any], controller: FakeController, following: SmxServerExtension
) -> None:
    await controller.happen(job())
    while following.current_activity() is None:
        await next_event()
    await controller.close()
    while (event := await next_event())["kind"] != "reset" or not started_controllers:
        assert event
    assert len(started_controllers) == 1


async def test_jobs_are_in_progress_however_many_came_after_them(
    next_event: Next, controller: FakeController, extension: SmxServerExtension, jp_serverapp: ServerApp
) -> None:
    controller.jobs = {one.id: one for one in (job(number) for number in range(2_500))}
    await extension._start_jupyter_server_extension(jp_serverapp)
    assert (await next_event())["kind"] == "reset"
    assert extension.current_activity() == {"jobs": 2_500}
    await extension.stop_extension()


async def test_a_log_that_was_cut_is_a_reset(
    next_event: Next, controller: FakeController, following: SmxServerExtension
) -> None:
    del following
    assert (await next_event())["seq"] == 0
    controller.forgotten_before = 5
    controller.seq = 7
    await controller.happen(job())
    assert [(await next_event())["kind"]] == ["reset"]


async def test_an_answer_of_nonsense_does_not_end_the_news(
    next_event: Next, controller: FakeController, following: SmxServerExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_relay, "SOCKET_POLL", 0.01)
    await next_event()
    await eventually(lambda: controller.asked("/v1/changes"), "the first poll")
    controller.answer("GET", "/v1/changes", 200, b'{"seq": "many"}')
    await controller.happen(job())
    assert [(await next_event())["kind"] for _ in range(2)] == ["job", "reset"]
    assert not following._relay_task.done()


async def test_an_error_in_the_relay_itself_is_logged_and_survived(
    next_event: Next, controller: FakeController, following: SmxServerExtension, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_relay, "SOCKET_POLL", 0.01)
    await next_event()
    real, calls = event_relay.to_bus_events, []

    def broken_once(events: Any) -> Any:
        calls.append(events)
        if len(calls) == 1:
            raise KeyError("a bug")
        return real(events)

    monkeypatch.setattr(event_relay, "to_bus_events", broken_once)
    await controller.happen(job())
    assert (await next_event())["kind"] == "reset"
    await controller.happen(job(2))
    assert (await next_event())["name"] == "train-digits-2"
    assert following._relay_task is not None
