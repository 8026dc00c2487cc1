"""The files of a front that another program deletes or replaces while it listens."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws import app
from jupyter_smx.aws.front_files import FrontFiles
from jupyter_smx.aws_endpoint.endpoint_file import endpoint_path, ensure_endpoint
from jupyter_smx.aws_endpoint.process import lock_path
from jupyter_smx.aws_endpoint.settings import read_settings
from jupyter_smx.data_folder.singleton_lock import SingletonLock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a lock and a key."""
    (tmp_path / "lock").touch()
    (tmp_path / "key").touch()
    return tmp_path


def front_files(folder: Path) -> FrontFiles:
    return FrontFiles({folder: "no folder", folder / "lock": "no lock", folder / "key": "no key"})


def test_files_as_they_were_are_no_loss(folder: Path) -> None:
    assert front_files(folder).find_loss() == ""


def test_a_file_that_is_deleted_or_replaced_is_a_loss(folder: Path) -> None:
    files = front_files(folder)
    (folder / "lock").rename(folder / "old")
    assert files.find_loss() == "no lock"
    (folder / "lock").touch()
    assert files.find_loss() == "no lock"
    (folder / "old").replace(folder / "lock")
    assert files.find_loss() == ""


def test_a_file_that_was_deleted_before_the_first_look_is_a_loss(folder: Path) -> None:
    (folder / "key").unlink()
    files = front_files(folder)
    assert files.find_loss() == "no key"
    (folder / "key").touch()
    assert files.find_loss() == "no key"


def test_a_file_system_that_does_not_answer_is_no_loss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = front_files(folder)

    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.stat", stale)
        assert files.find_loss() == ""


async def test_the_front_waits_for_a_signal_and_leaves_without_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "TICK", 0.01)
    ended, files = asyncio.Event(), front_files(folder)
    ended.set()
    await asyncio.wait_for(app._wait_end(ended, files), 30)
    ended.clear()
    waiting = asyncio.create_task(app._wait_end(ended, files))
    await asyncio.sleep(0)
    assert not waiting.done()
    (folder / "lock").unlink()
    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(waiting, 30)
    assert "no lock; the front leaves" in caplog.text


class LockWithReader(SingletonLock):
    """A lock; as soon as clients find its front, another program replaces the key."""

    def write(self, *words: str) -> None:
        super().write(*words)
        # A file that is deleted may give its inode to the next one.
        endpoint_path().rename(endpoint_path().with_name("old"))
        ensure_endpoint()


async def test_the_front_watches_its_files_before_a_client_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    monkeypatch.setattr(app, "TICK", 0.01)
    controller_launch.ensure_folders()
    lock = LockWithReader(lock_path())
    assert lock.acquire()
    try:
        with caplog.at_level(logging.WARNING):
            await asyncio.wait_for(app._run(read_settings(), lock), 30)
    finally:
        lock.release()
    assert "port and key was deleted or replaced; the front leaves" in caplog.text


def test_a_front_with_a_shared_folder_watches_local_files_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(app.controller_launch, "data_dir", lambda: tmp_path)
    monkeypatch.setattr(app, "endpoint_path", lambda: tmp_path / "aws.json")
    (tmp_path / "aws.lock").touch()
    (tmp_path / "aws.json").touch()
    own, shared = app._front_files(is_shared=False), app._front_files(is_shared=True)
    (tmp_path / "aws.json").unlink()
    assert "port and key" in own.find_loss()
    assert shared.find_loss() == ""
    (tmp_path / "aws.lock").unlink()
    assert "its lock" in shared.find_loss()
