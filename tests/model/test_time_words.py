"""Durations and moments: Python and the browser write them alike, by a table that a test of each language reads."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model import duration, text

TABLE = json.loads(
    (Path(__file__).parents[2] / "src" / "__tests__" / "format" / "durations.json").read_text(encoding="utf-8")
)


def _seconds(moment: list[int]) -> float:
    """Return the seconds since the epoch of a moment on this machine's clock."""
    return time.mktime((*moment, 0, 0, -1))


@pytest.mark.parametrize(("seconds", "words"), TABLE["duration"])
def test_a_duration_is_written_as_in_the_browser(seconds: float, words: str) -> None:
    assert text.format_duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), TABLE["precise"])
def test_a_step_duration_is_written_as_in_the_browser(seconds: float, words: str) -> None:
    assert text.format_precise(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), TABLE["estimate"])
def test_an_estimate_is_written_as_in_the_browser(seconds: float, words: str) -> None:
    assert text.format_estimate(seconds) == words


@pytest.mark.parametrize("row", TABLE["moment"], ids=lambda row: row["words"])
def test_a_moment_is_written_as_in_the_browser(row: dict) -> None:
    now = None if row["now"] is None else _seconds(row["now"])
    assert text.format_moment(_seconds(row["at"]), now) == row["words"]


def test_a_moment_in_text_that_is_kept_has_its_offset_from_utc() -> None:
    at = _seconds([2026, 10, 2, 14, 5, 7])
    assert re.fullmatch(r"2026-10-02 14:05:07 [+-]\d{4}", text.format_moment(at, zone=True))


@given(st.integers(1, 10**8))
def test_what_is_written_is_read_back_but_for_the_units_that_were_left_out(seconds: int) -> None:
    units = text.format_duration(seconds).replace("min", "m").split()
    assert len(units) in {2, 4}
    read = duration.parse("".join(units))
    assert read <= seconds
    assert seconds - read < {"d": 3_600, "h": 60, "m": 1, "s": 1}[units[1]], "what was left out is less than a unit"
