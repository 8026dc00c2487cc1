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
