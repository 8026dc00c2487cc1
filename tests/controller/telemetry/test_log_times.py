"""The index of times beside a log: what is written when pieces arrive, and what a reader makes of any bytes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulling import CONTENT, JOB, came, pulling

from jupyter_smx.controller.telemetry import log_times
from jupyter_smx.controller.telemetry.log_copy import LogCopy
from jupyter_smx.controller.telemetry.log_times import (
    DOUBLE_EVERY,
    ENTRY,
    HEADER,
    NO_TIMES,
    LogTimesWriter,
    interval_after,
    parse_times,
    read_times,
)
from jupyter_smx.controller.transfer.host_spool import HostSpool

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *entries: tuple[int, int]) -> None:
    """Let one controller write entries, and end."""
    writer = LogTimesWriter(path)
    for offset, now in entries:
        writer.add(offset, now)
    writer.close()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "algo-1.times"


def test_a_piece_has_the_time_of_its_arrival(index: Path) -> None:
    write(index, (0, 1000), (50, 1020))
    found = read_times(index)
    assert [found.at(offset) for offset in (0, 49, 50, 10_000)] == [1000, 1000, 1020, 1020]
    assert [found.first_byte_since(moment) for moment in (0, 1000, 1001, 1020, 1021)] == [0, 0, 50, 50, None]


def test_pieces_of_one_interval_share_an_entry_also_after_a_restart(index: Path) -> None:
    write(index, (0, 1000), (5, 1009))
    write(index, (9, 1009), (20, 1010))
    assert read_times(index) == ([0, 20], [1000, 1010])


def test_a_clock_that_goes_back_takes_no_time_back(index: Path) -> None:
    write(index, (0, 5000), (10, 1000))
    write(index, (20, 1000), (30, 5010))
    assert read_times(index) == ([0, 30], [5000, 5010])


def test_the_interval_doubles_so_that_the_index_of_weeks_stays_small() -> None:
    assert [interval_after(entries) for entries in (0, DOUBLE_EVERY - 1, DOUBLE_EVERY, 3 * DOUBLE_EVERY)] == [
        10,
        10,
        20,
        80,
    ]
    entries, milliseconds = 0, 0
    while milliseconds < 28 * 24 * 3_600_000:
        milliseconds += DOUBLE_EVERY * interval_after(entries)
        entries += DOUBLE_EVERY
    assert entries * ENTRY.size < 10 * 2**20


@pytest.mark.parametrize("cut", range(1, ENTRY.size))
def test_an_entry_that_was_cut_is_no_entry_and_the_next_controller_goes_on_after_the_last_whole_one(
    index: Path, cut: int
) -> None:
    write(index, (0, 1000), (50, 2000))
    os.truncate(index, index.stat().st_size - cut)
    assert read_times(index) == ([0], [1000])
    write(index, (50, 3000))
    assert read_times(index) == ([0, 50], [1000, 3000])


@pytest.mark.parametrize("cut", range(len(HEADER)))
def test_a_header_that_was_cut_is_written_again(index: Path, cut: int) -> None:
    index.write_bytes(HEADER[:cut])
    assert read_times(index) == NO_TIMES
    write(index, (7, 1000))
    assert read_times(index) == ([7], [1000])


def test_an_index_of_another_version_is_left_as_it_is(index: Path) -> None:
    content = HEADER.replace(b"1", b"2") + b"x" * 32
    index.write_bytes(content)
    write(index, (7, 1000))
    assert (index.read_bytes(), read_times(index)) == (content, NO_TIMES)


def test_a_disk_that_refuses_costs_no_more_than_times(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(log_times.os, "write", full)
        write(index, (0, 1000), (50, 2000))
    write(index, (90, 3000))
    assert read_times(index) == ([90], [3000])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))), st.integers(0, 40))
def test_entries_that_are_added_change_no_earlier_time(entries: list[tuple[int, int]], size: int) -> None:
    content = HEADER + b"".join(ENTRY.pack(*entry) for entry in entries)
    before, after = parse_times(content[: len(HEADER) + size * ENTRY.size]), parse_times(content)
    assert list(after.moments) == sorted(after.moments)
    assert list(after.begins) == sorted(set(after.begins))
    assert after.begins[: len(before.begins)] == before.begins
    assert after.moments[: len(before.moments)] == before.moments


def test_a_late_controller_gives_no_time_to_bytes_that_are_here(tmp_path: Path, index: Path) -> None:
    log = tmp_path / "algo-1.log"
    late, new = (LogCopy(log, 0, times=index) for _ in range(2))
    new.add_time(1000)
    new.write(b"12345", 5)
    late.add_time(2000)
    late.write(b"12", 5)
    late.add_time(3000)
    late.write(b"345", 5)
    late.close()
    new.close()
    assert (log.read_bytes(), read_times(index)) == (b"12345", ([0], [1000]))


@pytest.mark.parametrize("is_network", [False, True])
async def test_the_collector_writes_an_index_of_a_log(tmp_path: Path, is_network: bool) -> None:
    async with pulling(tmp_path, is_network=is_network) as (agent, agents, collector):
        collector.clock = lambda: 12.5
        agent.files[(JOB.id, "log")] = CONTENT[:100]
        await collector.drain(JOB, "algo-1", 100, agents.stream("c1", "algo-1"))
        agent.files[(JOB.id, "log")] = CONTENT
        collector.clock = lambda: 13.0
        await collector.drain(JOB, "algo-1", len(CONTENT), agents.stream("c1", "algo-1"))
    assert came(tmp_path) == CONTENT
    found = read_times(tmp_path / "jobs" / JOB.id / "logs" / "algo-1.times")
    assert found == ([0, 100], [12_500, 13_000])


async def test_a_log_that_is_read_from_the_folder_of_its_host_has_an_index(tmp_path: Path) -> None:
    remains = tmp_path / "spool" / JOB.id
    remains.mkdir(parents=True)
    (remains / "log").write_bytes(CONTENT)
    async with pulling(tmp_path) as (_, _, collector):
        collector.clock = lambda: 12.5
        await collector.drain(JOB, "algo-1", len(CONTENT), None, HostSpool(remains))
    assert read_times(tmp_path / "jobs" / JOB.id / "logs" / "algo-1.times") == ([0], [12_500])


async def test_a_job_without_output_has_no_file(tmp_path: Path) -> None:
    async with pulling(tmp_path) as (_, agents, collector):
        await collector.drain(JOB, "algo-1", 0, agents.stream("c1", "algo-1"))
    assert not (tmp_path / "jobs" / JOB.id / "logs").exists()
