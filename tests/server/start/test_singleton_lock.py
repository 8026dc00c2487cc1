"""The lock that lets one controller, and one front for clients of AWS, own a data folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from jupyter_smx.data_folder import singleton_lock
from jupyter_smx.data_folder.singleton_lock import SingletonLock, read_holder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_lock_is_free_as_soon_as_its_owner_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from jupyter_smx.data_folder.singleton_lock import SingletonLock;"
        "lock = SingletonLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"True\n"
        mine = SingletonLock(path)
        assert not mine.acquire()
        assert path.read_text() == f"{owner.pid}\n"
        owner.kill()
    assert mine.acquire()
    assert path.read_text() == f"{os.getpid()}\n"
    mine.release()
    mine.release()


def test_the_holder_and_its_words_are_read_while_it_lives(tmp_path: Path) -> None:
    lock = SingletonLock(tmp_path / "lock")
    assert read_holder(tmp_path / "lock") == []
    assert lock.acquire()
    assert read_holder(tmp_path / "lock") == [str(os.getpid())]
    lock.write("local", "match")
    assert read_holder(tmp_path / "lock") == [str(os.getpid()), "local", "match"]
    lock.release()
    assert read_holder(tmp_path / "lock") == []


def test_a_process_that_only_reads_the_holder_is_outlasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not SingletonLock(path).acquire(), "without a wait there is one attempt"
        monkeypatch.setattr(singleton_lock.time, "sleep", lambda _: fcntl.flock(reader, fcntl.LOCK_UN))
        lock = SingletonLock(path)
        assert lock.acquire(wait=60)
        assert read_holder(path) == [str(os.getpid())]
    lock.release()
