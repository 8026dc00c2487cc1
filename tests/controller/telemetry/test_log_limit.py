"""The limit of a log on disk: what the controller's copy and the host's file take, and what every reader gets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fake_agent import Doors, FakeAgent
from msgspec.structs import replace
from pulling import JOB, came

from jupyter_smx.agent.system.resources.log_limit import BLOCK, Gap, left_out
from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.telemetry import log_collector, log_copy, log_file, log_search
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.telemetry.log_copy import LogCopy, gap_notice
from jupyter_smx.controller.telemetry.log_metrics import LogMetricsReader
from jupyter_smx.controller.transfer.host_spool import HostSpool, empty_copied, free_copied
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.text import LEFT_OUT, NOTICE_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.controller.agents.stream import AgentStream

pytestmark = pytest.mark.usefixtures("punches")

LIMIT = 128 * 1024
CONTENT = b"".join(b"line %08d\n" % number for number in range(75_000))
GAP = left_out(len(CONTENT), LIMIT)
NOTICE = gap_notice(GAP, LIMIT)
SHOWN = CONTENT[: GAP.begin - NOTICE_SIZE] + NOTICE + CONTENT[GAP.end :]
"""What a reader gets of it."""


def log_of(folder: Path) -> Path:
    return folder / "jobs" / JOB.id / "logs" / "algo-1.log"


def used(path: Path) -> int:
    return path.stat().st_blocks * 512


def shown(path: Path) -> bytes:
    """Read a log as a client does."""
    text, offset = b"", 0
    while (piece := log_file.read_after(path, offset, 10_000)).end < piece.total or piece.data:
        text += piece.data
        offset = piece.end
    return text


class Controllers:
    """One host with the log of a job, and one controller after another that collects it."""

    def __init__(self, folder: Path, agent: FakeAgent) -> None:
        self.folder = folder
        self.agent = agent
        self.streams: list[Agents] = []

    async def collect(self, steps: list[int], limit: int = LIMIT, remains: Path | None = None) -> LogCollector:
        """Let a new controller read a log that grows in steps, to the last of these sizes."""
        agents = Agents(lambda *_: None, lambda *_: None)
        doors = Doors(self.agent)
        await agents.open(doors, doors.handle(), 1)  # type: ignore[arg-type]
        self.streams.append(agents)
        collector = LogCollector(
            self.folder / "jobs", agents, lambda _job: None, limit=limit, spool_of=lambda *_: remains
        )
        for size in steps:
            self.agent.files[(JOB.id, "log")] = CONTENT[:size]
            collector.on_growth(JOB, "algo-1", size)
            await self.drain(collector, size, agents.stream("c1", "algo-1"))
        return collector

    async def drain(
        self, collector: LogCollector, size: int, stream: AgentStream, spool: HostSpool | None = None
    ) -> None:
        await asyncio.wait_for(collector.drain(JOB, "algo-1", size, stream, spool), 10)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_of(tmp_path)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([len(CONTENT)], id="all at once"),
        pytest.param([*range(50_000, len(CONTENT), 50_000), len(CONTENT)], id="as it grows"),
        pytest.param([GAP.begin - 1, len(CONTENT)], id="one byte before the gap"),
        pytest.param([GAP.begin + 5_000, len(CONTENT)], id="in the gap"),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_copy_has_both_ends_and_one_sentence(
    tmp_path: Path, log: Path, steps: list[int], is_restarted: bool
) -> None:
    async with FakeAgent(tmp_path / "a") as agent:
        controllers = Controllers(tmp_path, agent)
        for part in [[size] for size in steps] if is_restarted else [steps]:
            collector = await controllers.collect(part)
            assert used(log) <= LIMIT + BLOCK
            await collector.close()
        for agents in controllers.streams:
            await agents.close_all()
    assert len(came(tmp_path)) == len(CONTENT)
    assert shown(log) == SHOWN
    assert SHOWN.count(b"of this log were left out here") == 1
    assert came(tmp_path)[GAP.end :] == CONTENT[GAP.end :]


async def test_bytes_that_are_left_out_are_not_asked_for(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path / "a") as agent:
        controllers = Controllers(tmp_path, agent)
        collector = await controllers.collect([1000, len(CONTENT)])
        asked = [frame["offset"] for frame in agent.seen if frame["op"] == "read"]
        await collector.close()
        await controllers.streams[0].close_all()
    assert not any(GAP.begin < offset < GAP.end for offset in asked), asked


async def test_a_file_system_that_cannot_keeps_the_log_whole_and_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_copy, "punch", lambda *_: False)
    async with FakeAgent(tmp_path / "a") as agent:
        controllers = Controllers(tmp_path, agent)
        collector = await controllers.collect([*range(100_000, len(CONTENT), 100_000), len(CONTENT)])
        await collector.close()
        await controllers.streams[0].close_all()
    assert came(tmp_path) == CONTENT
    assert caplog.text.count("logs stay whole") == 1


async def test_without_a_limit_a_log_is_whole(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path / "a") as agent:
        controllers = Controllers(tmp_path, agent)
        collector = await controllers.collect([len(CONTENT)], limit=0)
        await collector.close()
        await controllers.streams[0].close_all()
    assert came(tmp_path) == CONTENT


async def test_a_limit_that_was_lowered_counts_at_the_end_of_the_job(tmp_path: Path, log: Path) -> None:
    async with FakeAgent(tmp_path / "a") as agent:
        controllers = Controllers(tmp_path, agent)
        for limit in (0, LIMIT):
            collector = await controllers.collect([len(CONTENT)], limit=limit)
            await collector.close()
        for agents in controllers.streams:
            await agents.close_all()
    assert shown(log) == SHOWN


class TestOneCopy:
    """What is here of a log is given back on a host of this machine."""

    @pytest.fixture
    def remains(self, tmp_path: Path) -> Path:
        folder = tmp_path / "spool" / JOB.id
        folder.mkdir(parents=True)
        (folder / "log").write_bytes(CONTENT)
        return folder

    @pytest.fixture
    def collector(self, tmp_path: Path) -> LogCollector:
        return LogCollector(tmp_path / "jobs", Agents(lambda *_: None, lambda *_: None), lambda _job: None, limit=LIMIT)

    async def test_a_large_log_lies_on_the_disk_once_at_the_end(
        self, log: Path, remains: Path, collector: LogCollector
    ) -> None:
        for _ in "ab":  # the second one: a controller that was killed before the verdict
            await collector.drain(JOB, "algo-1", len(CONTENT), None, HostSpool(remains))
            assert shown(log) == SHOWN
            assert (used(remains / "log"), used(log) <= LIMIT + BLOCK) == (0, True)

    async def test_a_small_one_stays_until_the_host_forgets_it(self, remains: Path, tmp_path: Path) -> None:
        (remains / "log").write_bytes(CONTENT[:1000])
        agents = Agents(lambda *_: None, lambda *_: None)
        await LogCollector(tmp_path / "jobs", agents, lambda _job: None).drain(
            JOB, "algo-1", 1000, None, HostSpool(remains)
        )
        assert (remains / "log").read_bytes() == came(tmp_path) == CONTENT[:1000]

    @pytest.mark.parametrize("harm", ["longer", "second name"])
    def test_what_is_not_all_here_or_not_only_the_hosts_stays(self, remains: Path, harm: str) -> None:
        if harm == "second name":
            (remains / "other").hardlink_to(remains / "log")
        empty_copied(remains, "log", len(CONTENT) - (harm == "longer"))
        assert (remains / "log").read_bytes() == CONTENT
        assert free_copied(remains, "log", 0, 8192) is (harm == "longer")

    async def test_during_the_run_the_host_keeps_the_end(
        self, tmp_path: Path, remains: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_collector, "MAX_STEP", 65_536)
        async with FakeAgent(tmp_path / "a") as agent:
            controllers = Controllers(tmp_path, agent)
            collector = await controllers.collect([len(CONTENT) - 1_000], remains=remains)
            await collector.close()
            await controllers.streams[0].close_all()
        kept = (remains / "log").read_bytes()
        assert len(kept) == len(CONTENT)
        assert kept[-66_000:] == CONTENT[-66_000:]
        assert used(remains / "log") <= 3 * 65_536 + log_collector.PIECE


class TestReaders:
    """A log with a gap: head up to 64 KiB, then 1 MiB that is left out, then the tail."""

    GAP = Gap(65_536, 65_536 + 2**20)

    @pytest.fixture
    def gapped(self, tmp_path: Path) -> Path:
        path = tmp_path / "algo-1.log"
        with path.open("wb") as file:
            file.write(b"a needle\n".rjust(self.GAP.begin, b"x"))
            file.seek(self.GAP.end)
            file.write(b"tail needle\n")
        return path

    @pytest.mark.parametrize("offset", [GAP.begin, GAP.begin + 1, GAP.end - 1, GAP.end])
    def test_a_reader_is_taken_behind_the_gap(self, gapped: Path, offset: int) -> None:
        assert log_file.read_after(gapped, offset, 4) == (b"tail", self.GAP.end, self.GAP.end + 12)

    def test_a_piece_ends_where_the_gap_begins(self, gapped: Path) -> None:
        piece = log_file.read_after(gapped, self.GAP.begin - 7, 1000)
        assert (piece.data, piece.end) == (b"needle\n", self.GAP.begin)

    @pytest.mark.parametrize("end", [GAP.begin, GAP.begin + 1, GAP.end - 1, GAP.end])
    def test_a_reader_is_taken_before_the_gap(self, gapped: Path, end: int) -> None:
        assert log_file.read_before(gapped, end, 7)[:2] == (b"needle\n", self.GAP.begin - 7)

    def test_bytes_before_the_end_stop_at_the_gap(self, gapped: Path) -> None:
        assert log_file.read_before(gapped, 2**40, 1000)[:2] == (b"tail needle\n", self.GAP.end)

    def test_the_last_bytes_are_never_zeros(self, gapped: Path) -> None:
        assert log_file.read_last(gapped, 1000, 1000).data == b"tail needle\n"

    def test_a_search_passes_over_it_and_finds_both_ends(self, gapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_search, "SEARCH_LIMIT", 2**17)
        found = log_search.search(gapped, log_search.compile_pattern("needle", match_case=True), 0, None)
        assert found == ([self.GAP.end + 5, self.GAP.begin - 7], 0, self.GAP.end + 12)

    def test_metrics_go_on_behind_it_and_say_what_they_did_not_read(self, tmp_path: Path) -> None:
        log_of(tmp_path).parent.mkdir(parents=True)
        with log_of(tmp_path).open("wb") as file:
            file.write(b"\nloss=1.5\n".rjust(self.GAP.begin, b"x"))
            file.seek(self.GAP.end)
            file.write(b"rest of a line\nloss=2.5\n")
        job = replace(JOB, spec=replace(JOB.spec, metrics={"loss": r"loss=(\S+)"}))
        found = LogMetricsReader(JobFolder(tmp_path / "jobs", JOB.id), job, lambda: 1.0)
        while found.read_next().more:
            pass
        (series,) = found.job_metrics().series
        assert list(series.values) == [1.5, 2.5]
        assert found.notes() == ("The log of algo-1 grew faster than metrics could be read: 1.0 MiB were skipped.",)

    def test_ranges_are_what_a_download_has(self, gapped: Path) -> None:
        with gapped.open("rb") as file:
            found = log_file.data_ranges(file.fileno())
        assert found == [(0, self.GAP.begin), (self.GAP.end, self.GAP.end + 12)]

    def test_what_is_not_there_is_empty(self, tmp_path: Path) -> None:
        for read in (log_file.read_after, log_file.read_before, log_file.read_last):
            assert read(tmp_path / "none", 5, 10).data == b""


def test_zeros_of_a_hosts_own_gap_become_a_gap_and_those_at_the_end_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "algo-1.log"
    copy = LogCopy(path, 0)
    pieces = [b"head".ljust(32_768) + bytes(8192), bytes(65_536), bytes(8192) + b"tail", bytes(8192)]
    total = sum(map(len, pieces))
    for piece in pieces:
        copy.write(piece, total)
    copy.close()
    assert path.read_bytes() == b"".join(pieces)
    assert used(path) < 65_536


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([bytes(65_536) + b"tail"], id="at the begin"),
        pytest.param([bytes(50_000), bytes(50_000), b"tail"], id="at the begin, in pieces"),
        pytest.param([b"head".ljust(40_000) + bytes(50_000), bytes(50_000) + b"tail"], id="in the middle"),
        pytest.param([b"head".ljust(40_960), bytes(50_000) + b"tail"], id="from a block on"),
    ],
)
def test_zeros_that_a_job_wrote_are_no_gap(tmp_path: Path, pieces: list[bytes]) -> None:
    path = tmp_path / "algo-1.log"
    copy = LogCopy(path, 0)
    whole = b"".join(pieces)
    for piece in pieces:
        copy.write(piece, len(whole))
    copy.close()
    assert (path.read_bytes(), log_file.read_after(path, 0, 200_000).data) == (whole, whole)
    assert log_file.read_before(path, len(whole) - 4, 1_000).data == whole[-1_004:-4]


@pytest.mark.parametrize("size", [1, 2**40, 2**60])
def test_a_sentence_about_a_gap_has_the_size_in_which_readers_look_for_it(size: int) -> None:
    notice = gap_notice(Gap(0, size), size)
    assert len(notice) == NOTICE_SIZE
    assert LEFT_OUT.encode() in notice


def test_nothing_is_written_behind_the_cursor(tmp_path: Path) -> None:
    copy = LogCopy(tmp_path / "algo-1.log", LIMIT)
    copy.write(CONTENT[:1000], len(CONTENT))
    copy.limit(len(CONTENT))
    copy.close()
    assert (copy.cursor, (tmp_path / "algo-1.log").read_bytes()) == (1000, CONTENT[:1000])
    assert copy.stop(len(CONTENT)) == GAP.begin
