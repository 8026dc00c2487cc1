"""Durations: what people write is read, what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model import duration
from jupyter_smx.model.errors import ValidationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("600", 600),
        ("90s", 90),
        ("10m", 600),
        ("1h", 3_600),
        ("1h30m", 5_400),
        ("2d", 172_800),
        (" 1H ", 3_600),
    ],
)
def test_what_people_write(text: str, seconds: int) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10 m", "-5", "1.5h", "10x", "1h 30m", "h1", "٣٠m!", "1e3", "inf"])
def test_what_is_no_duration_is_refused_with_the_option_the_value_the_rule_and_an_example(text: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        duration.parse(text, "max_run")
    assert refusal.value.field == "max_run"
    assert refusal.value.message.startswith("--max-run: ")
    assert refusal.value.rule
    assert refusal.value.cure


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_numbers_with_units_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = days * 86_400 + hours * 3_600 + minutes * 60 + seconds
    assert duration.parse(f"{days}d{hours}h{minutes}m{seconds}s") == total
    assert duration.parse(str(total)) == total


@given(st.integers(1, 10**8))
def test_what_is_said_is_read_back_but_for_the_units_that_were_left_out(seconds: int) -> None:
    said = duration.format_duration(seconds)
    units = said.replace("min", "m").split()
    assert len(units) in {2, 4}
    read = duration.parse("".join(units))
    assert read <= seconds
    assert seconds - read < {"d": 3_600, "h": 60, "m": 1, "s": 1}[units[1]], "what was left out is less than a unit"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.85, "850 ms"),
        (4.2, "4.2 s"),
        (59.0, "59 s"),
        (600, "10 min"),
        (5_400, "1 h 30 min"),
        (59.96, "1 min"),
        (0.9996, "1 s"),
    ],
)
def test_how_durations_are_said(seconds: float, said: str) -> None:
    assert duration.format_duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0004, "0.4 ms"),
        (0.0862, "86.2 ms"),
        (0.09996, "100 ms"),
        (0.1846, "185 ms"),
        (0.9996, "1 s"),
        (1.26, "1.26 s"),
        (9.994, "9.99 s"),
        (9.996, "10 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min"),
        (1_234, "20 min 34 s"),
    ],
)
def test_how_the_time_of_a_step_is_said(seconds: float, said: str) -> None:
    assert duration.format_precise(seconds) == said
