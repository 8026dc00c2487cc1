"""A server under which jobs run is not culled, and one without jobs is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fake_controller import FakeController, job, pool
from jupyter_server._tz import utcnow

from jupyter_smx.model.records.event import Event
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.server.activity import STALE_AFTER, Activity

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

    from jupyter_smx.server.app import SmxServerExtension


@pytest.fixture
def idle_server(jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A server that has been idle for longer than it may be; the list says when it would have shut down."""
    stops: list[str] = []
    monkeypatch.setattr(jp_serverapp, "stop", lambda: stops.append("stopped"))
    jp_serverapp.shutdown_no_activity_timeout = 60
    long_ago = utcnow() - timedelta(hours=2)
    settings = jp_serverapp.web_app.settings
    settings["started"] = long_ago
    settings["api_last_activity"] = long_ago
    settings["terminal_last_activity"] = long_ago
    monkeypatch.setattr(type(jp_serverapp.kernel_manager), "last_kernel_activity", long_ago)
    return stops


async def test_an_idle_server_without_jobs_shuts_down(
    idle_server: list[str],
    jp_serverapp: ServerApp,
    controller: FakeController,
    following: SmxServerExtension,
    eventually: Any,
) -> None:
    await controller.happen(pool())
    await eventually(lambda: controller.asked("/v1/changes"), "the relay follows")
    assert following.current_activity() is None
    jp_serverapp.shutdown_no_activity()
    assert idle_server == ["stopped"]


async def test_an_idle_server_with_a_running_job_stays_and_shuts_down_afterwards(
    idle_server: list[str],
    jp_serverapp: ServerApp,
    controller: FakeController,
    following: SmxServerExtension,
    eventually: Any,
) -> None:
    await controller.happen(job())
    await eventually(following.current_activity, "the job is known")
    jp_serverapp.shutdown_no_activity()
    assert idle_server == []
    await controller.happen(job(step=SecondaryStatus.COMPLETED))
    await eventually(lambda: following.current_activity() is None, "the job is over")
    jp_serverapp.web_app.settings["last_activity_times"].clear()
    jp_serverapp.shutdown_no_activity()
    assert idle_server == ["stopped"]


async def test_who_looks_from_outside_sees_a_running_job_as_activity_of_now(
    idle_server: list[str],
    jp_serverapp: ServerApp,
    controller: FakeController,
    following: SmxServerExtension,
    eventually: Any,
) -> None:
    assert utcnow() - jp_serverapp.web_app.last_activity() > timedelta(hours=1)
    await controller.happen(job())
    await eventually(following.current_activity, "the job is known")
    following.remind_cullers()
    assert utcnow() - jp_serverapp.web_app.last_activity() < timedelta(seconds=30)
    assert idle_server == []


def event(seq: int, step: SecondaryStatus) -> Event:
    return Event(seq=seq, at=0.0, job=job(1, step))


def test_a_job_counts_from_its_first_word_to_its_verdict() -> None:
    activity = Activity()
    activity.apply_changes([event(1, SecondaryStatus.PENDING)], now=0.0)
    assert activity.count_in_progress(1.0) == 1
    activity.apply_changes([event(2, SecondaryStatus.STOPPING)], now=1.0)
    assert activity.count_in_progress(1.0) == 1
    activity.apply_changes([event(3, SecondaryStatus.STOPPED)], now=2.0)
    assert activity.count_in_progress(2.0) == 0


def test_a_listing_is_the_whole_truth() -> None:
    activity = Activity()
    activity.replace_all([job(1), job(2), job(3, SecondaryStatus.FAILED)], now=0.0)
    assert activity.count_in_progress(0.0) == 2
    activity.replace_all([], now=0.0)
    assert activity.count_in_progress(0.0) == 0


def test_jobs_of_a_controller_that_has_long_been_silent_no_longer_keep_the_server() -> None:
    activity = Activity()
    activity.replace_all([job(1)], now=0.0)
    assert activity.count_in_progress(STALE_AFTER) == 1
    assert activity.count_in_progress(STALE_AFTER + 1) == 0
