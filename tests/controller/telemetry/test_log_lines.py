"""Whole lines of a log with their times: from both ends, with gaps, long lines, and without an index."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.controller.telemetry import log_lines
from jupyter_smx.controller.telemetry.log_copy import LogCopy
from jupyter_smx.controller.telemetry.log_lines import Selection, read_lines
from jupyter_smx.controller.telemetry.log_times import times_path

if TYPE_CHECKING:
    from jupyter_smx.model.results.log_lines import LogEvent, LogLines

RUN = 1_000_000
"""Milliseconds at which the run began."""


def arrive(path: Path, *pieces: bytes, at: int = RUN, step: int = 100, limit: int = 0) -> None:
    """Let pieces arrive, one each ``step`` milliseconds."""
    total = path.stat().st_size if path.exists() else 0
    copy = LogCopy(path, limit, times=times_path(path))
    for number, piece in enumerate(pieces):
        total += len(piece)
        copy.limit(total)
        copy.add_time(at + number * step)
        copy.write(piece, total)
        copy.limit(total)
    copy.close()


def read(path: Path, *, is_final: bool = True, **selected: int | None) -> LogLines:
    return read_lines(path, Selection(**selected), run_begin=RUN, is_final=is_final)  # type: ignore[arg-type]


def plain(page: LogLines) -> list[tuple[str, int]]:
    return [(line.text, line.at - RUN) for line in page.lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "algo-1.log"


def test_a_line_has_the_time_of_the_piece_that_completed_it(log: Path) -> None:
    arrive(log, b"one\ntw", b"o\nthree\n\nf", b"our\n")
    assert plain(read(log)) == [("one", 0), ("two", 100), ("three", 100), ("", 100), ("four", 200)]
    assert [line.offset for line in read(log).lines] == [0, 4, 8, 14, 15]


def test_a_line_without_newline_counts_at_the_end_only(log: Path) -> None:
    arrive(log, b"one\n", b"tw")
    running = read(log, is_final=False)
    assert (plain(running), running.end, running.is_final) == ([("one", 0)], 4, False)
    assert read(log, is_final=False, after=4).end == 4
    assert plain(read(log, after=4)) == [("tw", 100)]


def test_a_page_ends_where_the_next_one_begins(log: Path) -> None:
    arrive(log, b"a\nb\nc\n")
    page = read(log, limit=2)
    assert (plain(page), page.begin, page.end, page.has_more) == ([("a", 0), ("b", 0)], 0, 4, True)
    page = read(log, limit=2, after=page.end)
    assert (plain(page), page.end, page.has_more) == ([("c", 0)], 6, False)
    last = read(log, limit=2, from_end=True)
    assert (plain(last), last.begin, last.has_more) == ([("b", 0), ("c", 0)], 2, True)
    assert plain(read(log, limit=2, from_end=True, before=last.begin)) == [("a", 0)]


def test_moments_select_lines(log: Path) -> None:
    arrive(log, b"a\nb", b"b\nc\n", b"d\n")
    assert plain(read(log, since=RUN + 1)) == [("bb", 100), ("c", 100), ("d", 200)]
    assert plain(read(log, since=RUN + 100, until=RUN + 200)) == [("bb", 100), ("c", 100)]
    assert plain(read(log, until=RUN + 200, from_end=True, limit=1)) == [("c", 100)]
    assert plain(read(log, since=RUN + 201)) == []
    assert plain(read(log, until=RUN)) == []


def test_no_line_of_the_future_moves_a_reader(log: Path) -> None:
    arrive(log, b"a\nb")
    assert read(log, is_final=False, since=RUN + 500, after=0).end == 0
    assert read(log, is_final=False, since=RUN + 500, after=2).end == 2


def test_without_a_limit_of_lines_only_the_times_of_both_ends_are_read(log: Path) -> None:
    arrive(log, b"a\nb", b"c\n")
    page = read(log, limit=0)
    assert (page.lines, page.first_at, page.last_at, page.total) == ((), RUN, RUN + 100, 5)
    assert read(log.with_name("none.log"), limit=0).first_at is None


def test_a_log_without_an_index_counts_a_millisecond_for_each_line(log: Path) -> None:
    log.write_bytes(b"a\nb\nc")
    assert plain(read(log)) == [("a", 0), ("b", 1), ("c", 2)]
    assert plain(read(log, after=2, limit=1)) == [("b", 1)]
    assert plain(read(log, since=RUN + 1, until=RUN + 2)) == [("b", 1)]
    assert plain(read(log, since=RUN + 9)) == []
    assert read(log, limit=0).last_at == RUN + 2


def test_a_log_that_began_without_an_index_never_goes_back(log: Path) -> None:
    log.write_bytes(b"a\nb\nc\nd")
    arrive(log, b"d\ne\n", b"f\n", at=RUN + 1)
    assert plain(read(log)) == [("a", 0), ("b", 1), ("c", 2), ("dd", 3), ("e", 3), ("f", 101)]
    for since in range(5):
        assert plain(read(log, since=RUN + since)) == [row for row in plain(read(log)) if row[1] >= since]


def test_times_of_an_index_do_not_depend_on_the_begin_of_the_run(log: Path) -> None:
    arrive(log, b"a\n", b"b\n", at=RUN - 500)
    assert plain(read(log)) == [("a", -500), ("b", -400)]
    assert plain(read(log, since=RUN - 450)) == [("b", -400)]


def test_an_index_of_another_version_counts_as_none(log: Path) -> None:
    arrive(log, b"a\nb\n", at=RUN + 50)
    times_path(log).write_bytes(b"smx log times 9\n" + bytes(64))
    assert plain(read(log)) == [("a", 0), ("b", 1)]


def test_bytes_that_are_no_text_and_returns_of_a_bar_are_in_the_line(log: Path) -> None:
    arrive(log, b"10%\r20%\r\n\xff\xc3\xa4\n")
    assert [line.text for line in read(log).lines] == ["10%\r20%\r", "�ä"]


class TestLongLines:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_lines, "MAX_LINE", 4)
        monkeypatch.setattr(log_lines, "PIECE", 10)
        monkeypatch.setattr(log_lines, "BLOCK", 3)

    def test_parts_of_a_long_line_are_lines_from_both_ends(self, log: Path) -> None:
        arrive(log, b"0123456789ab\nxy\n", b"01234567")
        texts = ["0123", "4567", "89ab", "", "xy", "0123", "4567"]
        assert texts_of_pages(log, limit=1) == texts
        assert texts_back(log, limit=1) == texts
        assert plain(read(log, since=RUN + 100)) == [("0123", 100), ("4567", 100)]

    def test_a_part_counts_as_soon_as_it_is_whole(self, log: Path) -> None:
        arrive(log, b"012345")
        assert [line.text for line in read(log, is_final=False).lines] == ["0123"]


@pytest.mark.usefixtures("punches")
class TestGap:
    LIMIT = 65_536

    @pytest.fixture
    def gapped(self, log: Path) -> Path:
        arrive(log, *(b"line %08d\n" % number for number in range(15_000)), limit=self.LIMIT, step=10)
        return log

    def test_lines_of_both_ends_and_the_sentence_have_times_in_order(self, gapped: Path) -> None:
        lines = pages(gapped, limit=700)
        assert "left out" in "".join(line.text for line in lines)
        assert (lines[0].text, lines[-1].text) == ("line 00000000", "line 00014999")
        assert len(lines) < 6_000
        assert [line.at for line in lines] == sorted(line.at for line in lines)
        assert lines == back(gapped, limit=700)

    def test_a_reader_in_the_gap_goes_on_behind_it(self, gapped: Path) -> None:
        found = read(gapped, after=self.LIMIT, limit=2)
        assert found.lines[1].text.startswith("line ")
        assert found.begin == found.lines[0].offset > self.LIMIT
        assert read(gapped, since=found.lines[1].at).lines[0].offset >= found.begin

    def test_the_begin_of_a_line_before_a_gap_of_its_host_is_a_line(self, log: Path) -> None:
        with log.open("wb") as file:
            file.write(b"head\nha".rjust(65_536, b"."))
            file.seek(131_072)
            file.write(b"lf\ntail")
        assert [line.text[-4:] for line in read(log, is_final=False).lines] == ["head", "ha"]
        assert [line.text for line in read(log, is_final=False, after=65_536).lines] == ["lf"]
        assert [line.text[-4:] for line in back(log, limit=1, is_final=True)] == ["head", "ha", "lf", "tail"]

    def test_before_an_unfinished_line_behind_a_gap_the_last_lines_are_those_before_it(self, log: Path) -> None:
        with log.open("wb") as file:
            file.write(b"head\n".rjust(65_536, b"."))
            file.seek(131_072)
            file.write(b"unfinished")
        (line,) = read(log, is_final=False, from_end=True, limit=1).lines
        assert line.text.endswith("head")


def pages(path: Path, *, limit: int, since: int = 0, is_final: bool = True) -> list[LogEvent]:
    """Read all lines in pages."""
    found: list[LogEvent] = []
    after = 0
    while (page := read(path, after=after, limit=limit, since=since, is_final=is_final)).lines:
        assert page.begin == page.lines[0].offset >= after
        found += page.lines
        after = page.end
    assert page.end == after
    return found


def back(path: Path, *, limit: int, is_final: bool = True) -> list[LogEvent]:
    """Read all lines in pages from the end."""
    found: list[LogEvent] = []
    before: int | None = None
    while (page := read(path, before=before, limit=limit, from_end=True, is_final=is_final)).lines:
        found = [*page.lines, *found]
        before = page.begin
    assert page.begin == (before or 0)
    return found


def texts_of_pages(path: Path, *, limit: int) -> list[str]:
    return [line.text for line in pages(path, limit=limit)]


def texts_back(path: Path, *, limit: int) -> list[str]:
    return [line.text for line in back(path, limit=limit)]


PIECES = st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n"]), min_size=1).map(b"".join), max_size=12)


@settings(deadline=None, max_examples=150)
@given(PIECES, st.integers(1, 4), st.integers(0, 1300), st.lists(st.integers(0, 11), max_size=3), st.booleans())
def test_pages_of_any_size_give_each_line_once_in_order_while_the_log_grows(
    pieces: list[bytes], limit: int, since: int, restarts: list[int], is_final: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "algo-1.log"
        seen: list[LogEvent] = []
        after = 0
        for number, piece in enumerate(pieces):
            arrive(log, piece, at=RUN + 100 * number)
            if number in restarts:  # a controller is killed before the bytes of the next entry
                (index := times_path(log)).write_bytes(index.read_bytes() + b"cut")
            page = read(log, after=after, limit=limit, since=RUN + since, is_final=False)
            seen, after = [*seen, *page.lines], page.end
        seen += [line for line in pages(log, limit=limit, since=RUN + since, is_final=is_final) if line.offset >= after]
        assert [(line.text, line.at) for line in seen] == expected(pieces, since, is_final=is_final)
        assert [line for line in back(log, limit=limit, is_final=is_final) if line.at >= RUN + since] == seen


def expected(pieces: list[bytes], since: int, *, is_final: bool) -> list[tuple[str, int]]:
    """Return texts and times by a second, simple way."""
    found, rest, moment = [], b"", RUN
    for number, piece in enumerate(pieces):
        moment = RUN + 100 * number
        *whole, rest = (rest + piece).split(b"\n")
        found += [(line.decode(), moment) for line in whole]
    found += [(rest.decode(), moment)] if is_final and rest else []
    return [row for row in found if row[1] >= RUN + since]
