"""Requests of jobs that were deleted by others than clients of AWS."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.sagemaker.request_cleanup import RequestCleanup
from jupyter_smx.aws.sagemaker.request_store import RequestStore, StoredRequest
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

NOW = 10_000.0


class Jobs:
    """A controller with some jobs; the first of ``failures`` requests fail."""

    def __init__(self, *names: str, failures: int = 0) -> None:
        self.names = names
        self.failures = failures
        self.requests = 0

    async def all_summaries(self) -> list[Any]:
        self.requests += 1
        if self.requests <= self.failures:
            raise UnavailableError("it restarts")
        return [SimpleNamespace(id=name) for name in self.names]


@pytest.fixture
def store(tmp_path: Path) -> RequestStore:
    """Return a store with requests of several ages."""
    found = RequestStore(tmp_path / "requests")
    for name, at in (("known", 1.0), ("deleted", 6_399.0), ("new", 6_401.0)):
        found.write(name, StoredRequest())
        os.utime(tmp_path / "requests" / f"{name}.json", (at, at))
    return found


def stored(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "requests").iterdir()}


def cleanup(jobs: Jobs, store: RequestStore, *, is_listening: bool = True) -> RequestCleanup:
    return RequestCleanup(cast("ControllerClient", jobs), store, lambda: NOW, lambda: is_listening)


async def test_old_requests_of_jobs_that_do_not_exist_are_deleted(tmp_path: Path, store: RequestStore) -> None:
    await cleanup(Jobs("known"), store).delete_old()
    assert stored(tmp_path) == {"known", "new"}


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

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            first.update(stored(tmp_path))
        else:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await cleanup(Jobs("known", failures=1), store).repeat(pause)
    assert pauses == [600.0, 600.0]
    assert first == {"known", "deleted", "new"}
    assert stored(tmp_path) == {"known", "new"}


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
