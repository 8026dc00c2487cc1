"""The first and the last lines of a long log, within a number of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.logs.log_budget import LogBudget, format_omission, format_pause

LINES = [f"{number} {'x' * 80}\n" for number in range(2_000)]


def shown(pieces: list[str], limit: int) -> tuple[str, str, LogBudget]:
    """Return what is shown at once, what is shown at the end, and the budget."""
    budget = LogBudget(limit)
    first = "".join(budget.take(piece) for piece in pieces)
    return first, budget.last_lines(), budget


@pytest.mark.parametrize("size", [10, 1_000, 1_000_000])
def test_a_long_log_is_shown_with_its_first_and_last_lines(size: int) -> None:
    text = "".join(LINES)
    first, last, budget = shown([text[at : at + size] for at in range(0, len(text), size)], 10_000)
    assert budget.is_over
    assert len(first) + len(last) <= 10_000
    assert min(len(first), len(last)) > 4_500
    assert last.endswith(LINES[-1])
    assert text.startswith(first)
    assert text.endswith(last)
    assert first.count("\n") + last.count("\n") + budget.omitted_lines == 2_000


@pytest.mark.parametrize("limit", [0, 200_000])
def test_a_short_log_and_one_without_limit_are_shown_as_they_are(limit: int) -> None:
    first, last, budget = shown(LINES, limit)
    assert first + last == "".join(LINES)
    assert not budget.is_over


def test_a_log_of_one_long_line_is_cut_at_its_carriage_returns() -> None:
    first, last, budget = shown([f"\r{number:06}" for number in range(10_000)], 1_000)
    assert first.startswith("\r000000")
    assert last.endswith("009999")
    assert len(first) + len(last) <= 1_000
    assert budget.is_over
    assert (budget.omitted_lines, budget.omitted_size) == (0, 70_000 - len(first) - len(last))


@given(st.lists(st.text(alphabet="aä\n\r日\u2028", max_size=40), max_size=30), st.integers(min_value=1, max_value=200))
def test_no_more_than_the_limit_is_shown_and_nothing_that_was_not_written(pieces: list[str], limit: int) -> None:
    text = "".join(pieces)
    first, last, budget = shown(pieces, limit)
    assert len(first.encode()) + len(last.encode()) <= limit
    assert text.startswith(first)
    assert text.endswith(last)
    assert budget.is_over or first + last == text
    assert len((first + last).encode()) + budget.omitted_size == len(text.encode())


def test_the_lines_of_the_tool_say_how_many_are_left_out_and_how_to_get_them() -> None:
    pause = format_pause("train-1", 1_000_000)
    assert "The log of train-1 is longer than 976.6 KiB" in pause
    assert "`jupyter smx logs train-1 -f` in a terminal shows all lines" in pause
    assert format_omission(188_000, 10**7) == "jupyter_smx: 188,000 lines (9.5 MiB) are left out here.\n"
    assert format_omission(1, 29_000_000) == "jupyter_smx: 1 line (27.7 MiB) is left out here.\n"
    assert format_omission(0, 2_000_000) == "jupyter_smx: 1.9 MiB of this log were left out here.\n"
