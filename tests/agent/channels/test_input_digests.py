"""What is remembered of input files from job to job: never a digest of another content than theirs."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import stage_in
from jupyter_smx.agent.channels.channel_types import ChannelError
from jupyter_smx.agent.stores import digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

YEAR = 365 * 86_400
LIMIT = 1 << 20


def row(content: bytes) -> str:
    """Give what stands for a channel of one file ``x``."""
    return hashlib.sha256(f"x\0{len(content)}\0{hashlib.sha256(content).hexdigest()}\n".encode()).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "x"
    path.parent.mkdir()
    write(path, b"first", YEAR)
    return path


def write(path: Path, content: bytes, age: float) -> None:
    """Put a file there as ``mv`` does, with a time of its own."""
    part = path.parent.parent / "part"
    part.write_bytes(content)
    moment = time.time() - age
    os.utime(part, (moment, moment))
    part.replace(path)


@pytest.fixture
def stage(source: Path, tmp_path: Path) -> Callable[..., str]:
    """Give ``stage()``, which stages the channel as for another job and gives its digest."""
    known: digest.DigestCache = {}

    def once(whole: str = "", **fields: Any) -> str:
        folder = tmp_path / f"job-{time.monotonic_ns()}"
        wish = {"name": "train", "source": whole or str(source.parent), **fields}
        staged = stage_in.stage([wish], {"train": str(folder)}, (), LIMIT, known)
        digest.remember_digests(known, staged["fresh"])
        (described,) = staged["inputs"]
        assert described["method"] == "content"
        return str(described["sha256"])

    return once


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Give ``meanwhile(act)``: something is done once, when a file was just copied."""

    def plan(act: Callable[[], None]) -> None:
        copy, acts = stage_in._copy, [act]

        def copy_and_act(source: str, target: str, *more: Any) -> None:
            copy(source, target, *more)
            if acts:
                acts.pop()()

        monkeypatch.setattr(stage_in, "_copy", copy_and_act)

    return plan


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read, paths = digest.hash_path, []  # type: Callable[[str], str], list[str]

    def counted(path: str) -> str:
        paths.append(path)
        return read(path)

    monkeypatch.setattr(digest, "hash_path", counted)
    return paths


@pytest.mark.parametrize("whole", [False, True], ids=["a folder", "a file"])
def test_a_file_that_did_not_change_is_read_once(
    stage: Callable[..., str], source: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    paths = count_reads(monkeypatch)
    wish = str(source) if whole else ""
    assert stage(wish) == stage(wish) == row(b"first")
    assert len(paths) == 1


@pytest.mark.parametrize("whole", [False, True], ids=["a folder", "a file"])
def test_a_file_that_is_replaced_while_it_is_copied_is_not_taken_for_the_one_that_was_read(
    stage: Callable[..., str], source: Path, meanwhile: Callable[..., None], whole: bool
) -> None:
    meanwhile(lambda: write(source, b"other", YEAR / 2))
    wish = str(source) if whole else ""
    assert stage(wish) == row(b"first"), "what the job has"
    assert stage(wish) == row(b"other")
    assert stage(wish) == row(b"other")


def test_a_copy_that_is_none_is_neither_remembered_nor_believed(
    stage: Callable[..., str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = stage_in._copy

    def older(path: str, target: str, *more: Any) -> None:
        before = source.stat()
        write(source, b"other", YEAR / 2)
        copy(path, target, *more)
        write(source, b"first", 0)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))

    monkeypatch.setattr(stage_in, "_copy", older)
    assert stage() == row(b"other")
    monkeypatch.setattr(stage_in, "_copy", copy)
    assert stage() == row(b"first")


def test_what_was_just_written_is_not_remembered_however_long_the_copy_takes(
    stage: Callable[..., str], source: Path, meanwhile: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tick of its file system a file may change and keep its time."""
    write(source, b"first", 0)
    paths, really = count_reads(monkeypatch), time.time
    meanwhile(lambda: monkeypatch.setattr(digest.time, "time", lambda: really() + 60))
    stage()
    monkeypatch.setattr(digest.time, "time", really)
    stage()
    assert len(paths) == 2


def test_a_file_that_vanishes_is_said_to_be_not_there(
    stage: Callable[..., str], source: Path, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    (source.parent / "y").touch()
    meanwhile((source.parent / "y").unlink)
    with pytest.raises(ChannelError, match=r"channel train: '.*/y' no longer exists"):
        stage()


def test_a_pipe_among_the_files_of_a_lazy_channel_holds_up_no_end(agent: Agent, source: Path) -> None:
    os.mkfifo(source.parent / "pipe")
    record = agent.run("print('ran')", channels=[{"name": "x", "source": str(source.parent), "mode": "FastFile"}])
    (told,) = record["inputs"]
    assert (told["method"], told["files"]) == ("none", 2)
    assert told["reason"].endswith("/x/pipe cannot be read (it is not a file).")
