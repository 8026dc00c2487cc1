"""Words in logs: where they are found, and that no log is too long, too coloured or too broken for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.telemetry.log_search import BLOCK, MAX_MATCHES, SEARCH_LIMIT, compile_pattern, search
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "algo-1.log"


def all_places(log: Path, text: str, *, match_case: bool = False) -> tuple[list[int], int]:
    """Ask until everything was looked through; also how often."""
    found: list[int] = []
    before, asked = None, 0
    while before is None or before > 0:
        places, before, _ = search(log, compile_pattern(text, match_case=match_case), 0, before)
        found += places
        asked += 1
    return found, asked


def test_lines_count_once_and_the_last_comes_first(log: Path) -> None:
    log.write_bytes(b"loss loss\nnothing\nthe loss\n")
    assert search(log, compile_pattern("loss", match_case=False), 0, None) == ([22, 0], 0, 27)


def test_letters_are_the_same_in_both_cases_unless_told_otherwise(log: Path) -> None:
    log.write_text("Größe\ngröße\nGRÖSSE\nGRÖßE\n", "utf-8")
    assert len(all_places(log, "größe")[0]) == 4
    assert all_places(log, "GRÖSSE", match_case=True) == ([16], 1)


def test_colours_between_letters_are_not_seen(log: Path) -> None:
    log.write_bytes(b"\x1b[31mEr\x1b[1;38;5;9mror\x1b[0m: 7\nerr or\n")
    assert all_places(log, "error: 7")[0] == [5]


@pytest.mark.parametrize("text", [".*", "a|b", "[x", "\\", "(?P<"])
def test_signs_of_patterns_are_signs(log: Path, text: str) -> None:
    log.write_text(f"abc\n{text}\n", "utf-8")
    assert all_places(log, text)[0] == [4]


def test_what_a_bar_said_before_it_was_drawn_over_is_not_there(log: Path) -> None:
    log.write_bytes(b"10%\r20%\r30%\nwindows 20%\r\n20% \r\r\n")
    assert all_places(log, "20%")[0] == [25, 20]
    assert all_places(log, "30%")[0] == [8]


def test_a_part_is_looked_through_at_a_time_and_nothing_is_lost_between_two(log: Path) -> None:
    filler = (b"x" * 99 + b"\n") * (BLOCK // 100 + 1)
    with log.open("wb") as file:
        while file.tell() < SEARCH_LIMIT + 3 * BLOCK:
            file.write(filler)
        size = file.tell()
        # Over borders of blocks and of parts, wherever they are.
        wanted = sorted({*(size - number * BLOCK - 3 for number in range(1, 35)), 0, size - 7}, reverse=True)
        for place in wanted:
            file.seek(place)
            file.write(b"needle\n")
    assert all_places(log, "Needle") == (wanted, 2)


def test_a_bound_of_places_and_where_to_go_on(log: Path) -> None:
    lines = MAX_MATCHES + 500
    log.write_bytes(b"e\n" * lines)
    places, reached, total = search(log, compile_pattern("e", match_case=True), 0, None)
    assert (len(places), reached, total) == (MAX_MATCHES, places[-1], 2 * lines)
    assert all_places(log, "e") == ([2 * number for number in reversed(range(lines))], 2)


def test_between_two_bytes(log: Path) -> None:
    log.write_bytes(b"a\na\na\na\n")
    assert search(log, compile_pattern("a", match_case=False), 2, 6) == ([4, 2], 2, 8)


def test_bytes_that_are_no_text_and_a_log_that_is_not_there(log: Path) -> None:
    assert search(log, compile_pattern("a", match_case=False), 0, None) == ([], 0, 0)
    log.write_bytes(bytes(range(256)) * 10)
    assert len(all_places(log, "ABC")[0]) == 10  # 0x0a is among them: a line each


@pytest.mark.parametrize("text", ["", "a" * 201, "a\nb", "a\rb"])
def test_what_cannot_be_looked_for(text: str) -> None:
    with pytest.raises(ValidationError, match="cannot be searched for"):
        compile_pattern(text, match_case=False)


def test_a_bar_of_a_hundred_megabytes_without_a_line_takes_no_longer_than_its_bytes(log: Path) -> None:
    state = b"\r 50%|#####     | 12345/99999 [00:10<00:10]"
    log.write_bytes(state * (100 * 2**20 // len(state)))
    began = time.perf_counter()
    found, asked = all_places(log, "12345")
    assert time.perf_counter() - began < 30, "it would be hours if each state looked for the end of the line"
    assert asked == 4
    assert len(found) == 1, "all but the last state were drawn over"
