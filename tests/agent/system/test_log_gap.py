"""Which bytes in the middle of a log are left out, and what happens to its file."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.resources import log_limit
from jupyter_smx.agent.system.resources.log_limit import BLOCK, MIN_LIMIT, NO_GAP, Gap, LogLimit, left_out, step_of

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 128 * 1024
GIBI = 1 << 30


@pytest.mark.parametrize("limit", [1, MIN_LIMIT, LIMIT, 100_001, 256 << 20, GIBI])
@pytest.mark.parametrize("factor", [1.001, 1.5, 2, 3.7, 100])
def test_a_log_takes_its_limit_and_keeps_both_ends(limit: int, factor: float) -> None:
    real = max(limit, MIN_LIMIT)
    size = int(real * factor) + 1
    begin, end = left_out(size, limit)
    assert real // 2 - step_of(limit) <= begin <= real // 2
    assert real - 2 * step_of(limit) <= size - (end - begin) <= real
    assert size - end >= real // 4
    assert (begin % BLOCK, end % BLOCK) == (0, 0)


@pytest.mark.parametrize(("size", "limit"), [(0, LIMIT), (LIMIT, LIMIT), (GIBI, 0), (GIBI, GIBI), (MIN_LIMIT, 1)])
def test_a_log_within_its_limit_is_whole(size: int, limit: int) -> None:
    assert left_out(size, limit) == NO_GAP


def test_a_gap_begins_where_it_began_and_only_grows() -> None:
    gaps = [left_out(size, LIMIT) for size in range(LIMIT + 1, 20 * LIMIT, 1_000)]
    assert {gap.begin for gap in gaps} == {LIMIT // 2}
    assert gaps == sorted(gaps)


@pytest.mark.usefixtures("punches")
def test_a_file_that_grows_stays_within_its_limit_and_keeps_its_size(tmp_path: Path) -> None:
    log, content = tmp_path / "log", os.urandom(1 << 20)
    limiter = LogLimit(str(log), LIMIT)
    with log.open("ab", buffering=0) as file:
        for at in range(0, len(content), 10_000):
            file.write(content[at : at + 10_000])
            limiter.apply(log.stat().st_size)
            assert log.stat().st_blocks * 512 <= LIMIT + BLOCK
    begin, end = left_out(len(content), LIMIT)
    assert log.read_bytes() == content[:begin] + bytes(end - begin) + content[end:]


def test_a_file_system_that_cannot_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log, asked = tmp_path / "log", []
    log.write_bytes(bytes(2 * LIMIT))
    monkeypatch.setattr(log_limit, "punch", lambda *what: bool(asked.append(what)))
    limiter = LogLimit(str(log), LIMIT)
    for size in (2 * LIMIT, 3 * LIMIT, 4 * LIMIT):
        limiter.apply(size)
    assert (len(asked), limiter.is_refused) == (1, True)
    assert "the log stays whole" in capfd.readouterr().err


def test_what_the_disk_refuses_now_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, asked = tmp_path / "log", []
    log.write_bytes(bytes(2 * LIMIT))

    def refuse(_descriptor: int, begin: int, end: int) -> bool:
        asked.append(Gap(begin, end))
        if len(asked) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return True

    monkeypatch.setattr(log_limit, "punch", refuse)
    limiter = LogLimit(str(log), LIMIT)
    limiter.apply(2 * LIMIT)
    limiter.apply(3 * LIMIT)
    limiter.apply(4 * LIMIT)
    assert asked[1] == left_out(3 * LIMIT, LIMIT)
    assert asked[2] == Gap(asked[1].end, left_out(4 * LIMIT, LIMIT).end)


@pytest.mark.usefixtures("punches")
@pytest.mark.parametrize("harm", ["gone", "link", "second name", "pipe"])
def test_a_file_that_is_not_the_log_any_more_stays_as_it_is(tmp_path: Path, harm: str) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    other.write_bytes(b"x" * 2 * LIMIT)
    if harm == "link":
        log.symlink_to(other)
    elif harm == "second name":
        log.hardlink_to(other)
    elif harm == "pipe":
        os.mkfifo(log)
    LogLimit(str(log), LIMIT).apply(2 * LIMIT)
    assert other.read_bytes() == b"x" * 2 * LIMIT
