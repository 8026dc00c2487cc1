"""One thread watches for many handles, while other threads make more of them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.api.session import Session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripted_controller import ScriptedController

    from jupyter_smx.kernel.api.watcher import Watcher
    from jupyter_smx.kernel.handles.job import Job

SPEC = JobSpec(kind="train", source="x = 1", base_name="train")
PATIENCE = 10.0
"""Seconds; a request for changes waits twice as long, so no test may depend on the next one."""


@pytest.fixture
def session(controller: ScriptedController) -> Iterator[Session]:  # noqa: ARG001 - it must be there first
    made = Session(None, autostart.client())
    yield made
    made.close()


@pytest.fixture
def busy(session: Session, controller: ScriptedController, eventually_blocking: Callable[..., Any]) -> Job:
    """Return a job for which the watcher waits; the watcher sends no request by itself."""
    job = session.submit(SPEC)
    eventually_blocking(lambda: controller.guests() == 1, "the watcher waits")
    return job


def heard_all(controller: ScriptedController) -> bool:
    """Return True if the watcher waits for what follows the newest event."""
    waits_for = f"since={len(controller.events)}&"
    return any("/v1/changes" in target and waits_for in f"{target}&" for target in controller.targets)


def told(job: Job) -> threading.Event:
    event = threading.Event()
    job.add_done_callback(lambda _: event.set())
    return event


def test_every_handle_of_a_job_is_told_of_its_end(busy: Job, session: Session, controller: ScriptedController) -> None:
    handles = [busy, *(session.attach(session.client.job(busy.name)) for _ in range(2))]
    events = [told(job) for job in handles]
    controller.end(busy.id)
    assert [event.wait(PATIENCE) for event in events] == [True] * 3


@pytest.mark.usefixtures("busy")
def test_a_handle_from_long_ago_is_told_although_its_news_passed_while_nobody_watched_it(
    session: Session, controller: ScriptedController, eventually_blocking: Callable[..., Any]
) -> None:
    other = session.client.submit("ab" * 16, SPEC)
    old = session.attach(other)
    controller.end(other.id)
    eventually_blocking(lambda: heard_all(controller), "the watcher has heard of it and waits again")
    assert told(old).wait(PATIENCE)
    assert asyncio.run(asyncio.wait_for(old.ended(), PATIENCE)) is None


@pytest.mark.usefixtures("busy")
def test_a_job_that_ends_before_its_handle_is_watched_is_told(
    session: Session, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch, eventually_blocking: Any
) -> None:
    watch = session.watcher.watch

    def late(job: Job) -> None:
        controller.end(job.id)
        eventually_blocking(lambda: heard_all(controller), "the watcher has heard of it and waits again")
        watch(job)

    monkeypatch.setattr(session.watcher, "watch", late)
    job = session.submit(SPEC)
    eventually_blocking(
        lambda: job.latest_record.state is SecondaryStatus.COMPLETED, "its card is true", within=PATIENCE
    )


def test_a_job_that_is_deleted_and_one_that_ends_leave_nothing_in_memory(
    busy: Job,
    session: Session,
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
    eventually_blocking: Any,
) -> None:
    monkeypatch.setattr("jupyter_smx.kernel.api.watcher._SINCE_SECONDS", 0.1)
    other = session.submit(SPEC)
    controller.run(busy.id)
    controller.delete(busy.id)
    controller.end(other.id)
    watching = session.watcher
    held = lambda: (watching._handles_by_job, watching._summaries, watching._draw_times, watching._unwatched_summaries)  # noqa: E731
    eventually_blocking(lambda: held() == ({}, {}, {}, {}), "all is let go")


def test_of_a_job_whose_end_its_handle_knows_nothing_is_asked(
    busy: Job,
    session: Session,
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
    eventually_blocking: Callable[..., Any],
) -> None:
    hear = session.watcher._handle_changes

    def after_its_wait(news: dict[str, Any]) -> None:
        busy.wait(PATIENCE)
        hear(news)

    monkeypatch.setattr(session.watcher, "_handle_changes", after_its_wait)
    looks = lambda: [target for target in controller.targets if target.endswith(f"/v1/jobs/{busy.id}")]  # noqa: E731
    before = looks()
    controller.end(busy.id)
    eventually_blocking(lambda: not session.watcher._handles_by_job, "its news are heard")
    assert looks() == before


def test_jobs_one_after_another_ask_for_changes_alone(
    session: Session, controller: ScriptedController, eventually_blocking: Callable[..., Any]
) -> None:
    first = session.submit(SPEC)
    controller.end(first.id)
    first.wait(PATIENCE)
    eventually_blocking(lambda: not session.watcher._handles_by_job, "its end is known")
    infos = lambda: sum("/v1/controller" in target for target in controller.targets)  # noqa: E731
    before = infos()
    second = session.submit(SPEC)
    event = told(second)
    controller.end(second.id)
    assert event.wait(PATIENCE)
    assert infos() == before


class Guarded(dict[str, Any]):
    """A dict that may only be used while its thread holds the lock."""

    watcher: Watcher
    touched = 0

    def _look(self) -> None:
        assert self.watcher._lock.locked(), "touched outside the lock"
        type(self).touched += 1

    def __iter__(self) -> Any:
        self._look()
        return super().__iter__()

    def values(self) -> Any:
        self._look()
        return super().values()

    def get(self, *arguments: Any) -> Any:
        self._look()
        return super().get(*arguments)

    def pop(self, *arguments: Any) -> Any:
        self._look()
        return super().pop(*arguments)

    def __contains__(self, key: object) -> bool:
        self._look()
        return super().__contains__(key)

    def setdefault(self, *arguments: Any) -> Any:
        self._look()
        return super().setdefault(*arguments)


def test_what_threads_share_is_touched_under_the_lock_alone(
    session: Session, controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = {}
    for name in ("_handles_by_job", "_arrays", "_summaries", "_draw_times", "_unwatched_summaries"):
        kinds[name] = type(name, (Guarded,), {"watcher": session.watcher, "touched": 0})
        setattr(session.watcher, name, kinds[name]())
    jobs = [session.submit(SPEC) for _ in range(3)]
    events = [told(job) for job in jobs]
    for job in jobs:
        controller.run(job.id)
        controller.end(job.id)
    assert all(event.wait(PATIENCE) for event in events), "the thread lives"
    assert not caplog.records
    assert kinds["_handles_by_job"].touched
    assert kinds["_arrays"].touched
