"""Requests of jobs that were deleted by others than clients of AWS."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.sagemaker.request_cleanup import RequestCleanup
from jupyter_smx.aws.sagemaker.request_store import RequestStore
from jupyter_smx.controller.app import ControllerApp
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

NOW = 10_000.0


class Jobs:
    """A controller with some jobs; its list lacks ``unlisted``, and the first of ``failures`` requests fail."""

    def __init__(self, *names: str, unlisted: str = "", failures: int = 0) -> None:
        self.names = names
        self.unlisted = unlisted
        self.failures = failures
        self.requests = 0
        self.closes = 0

    async def all_summaries(self) -> list[Any]:
        self.requests += 1
        if self.requests <= self.failures:
            raise UnavailableError("it restarts")
        return [SimpleNamespace(id=name) for name in self.names if name != self.unlisted]

    async def job(self, ref: str) -> None:
        if ref not in self.names:
            raise ResourceNotFoundError(ref)

    def close(self) -> None:
        self.closes += 1


def write(folder: Path, name: str, at: float) -> None:
    (folder / "requests").mkdir(exist_ok=True)
    path = folder / "requests" / name
    path.touch()
    os.utime(path, (at, at))


@pytest.fixture
def store(tmp_path: Path) -> RequestStore:
    """Return a store with requests of several ages."""
    for name, at in (("known", 1.0), ("deleted", 6_399.0), ("new", 6_401.0)):
        write(tmp_path, f"{name}.json", at)
    return RequestStore(tmp_path / "requests")


def stored(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "requests").iterdir()}


def cleanup(jobs: Jobs, store: RequestStore, *, is_listening: bool = True) -> RequestCleanup:
    return RequestCleanup(cast("ControllerClient", jobs), store, lambda: NOW, lambda: is_listening)


async def test_old_requests_of_jobs_that_do_not_exist_are_deleted(tmp_path: Path, store: RequestStore) -> None:
    inputs = store.inputs_folder("deleted")
    (inputs / "1").mkdir(parents=True)
    os.utime(inputs, (1.0, 1.0))
    write(tmp_path, "deleted.17.part", 1.0)
    await cleanup(Jobs("known"), store).delete_old()
    assert stored(tmp_path) == {"known", "new"}


async def test_a_job_that_a_list_lacks_keeps_its_request(tmp_path: Path, store: RequestStore) -> None:
    await cleanup(Jobs("known", "deleted", unlisted="deleted"), store).delete_old()
    assert stored(tmp_path) == {"known", "deleted", "new"}


async def test_a_request_that_was_changed_since_is_not_old(tmp_path: Path, store: RequestStore) -> None:
    write(tmp_path, "deleted.17.part", NOW)
    assert store.jobs_before(NOW - 3_600.0) == {"known"}


async def test_nothing_is_deleted_and_nothing_is_started_without_a_controller(
    tmp_path: Path, store: RequestStore
) -> None:
    jobs = Jobs()
    await cleanup(jobs, store, is_listening=False).delete_old()
    await cleanup(jobs, RequestStore(tmp_path / "none")).delete_old()
    assert jobs.requests == 0
    assert stored(tmp_path) == {"known", "deleted", "new"}


async def test_a_controller_that_fails_once_is_asked_again_after_a_pause(tmp_path: Path, store: RequestStore) -> None:
    pauses: list[float] = []
    first: set[str] = set()
    jobs = Jobs("known", failures=1)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            first.update(stored(tmp_path))
        else:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await cleanup(jobs, store).repeat(pause)
    assert first == {"known", "deleted", "new"}
    assert stored(tmp_path) == {"known", "new"}
    # An idle controller ends between two looks, of which none leaves a connection.
    assert min(pauses) > 2 * ControllerApp().idle_exit
    assert jobs.closes == 2


async def test_all_pages_of_a_list_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"job-{number}" for number in range(2_500)]
    befores: list[str] = []

    async def summaries(_: Any, limit: int, before: str = "") -> tuple[Any, ...]:
        befores.append(before)
        start = names.index(before) + 1 if before else 0
        return tuple(SimpleNamespace(id=name) for name in names[start : start + limit])

    monkeypatch.setattr(ControllerClient, "summaries", summaries)
    assert [job.id for job in await ControllerClient().all_summaries()] == names
    assert befores == ["", "job-999", "job-1999"]
