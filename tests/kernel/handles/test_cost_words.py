"""What a job costs, in words: the unit is written out, and small sums are not called nothing."""

from __future__ import annotations

import copy
import pickle

import pytest

from jupyter_smx.kernel.handles.cost import Cost, cost_page
from jupyter_smx.kernel.text.pages import format_dollars
from jupyter_smx.model.results.reports import Bill
from jupyter_smx.model.text import format_usd

BILL = Bill(
    price_per_hour=45.032,
    billable_seconds=3_600,
    retained_seconds=600,
    cost=52.54,
    steps=500,
    step_seconds=0.086,
    cost_per_step=45.032 / 3600 * 0.086,
)
PLAIN = Bill(price_per_hour=0.23, billable_seconds=36, retained_seconds=0, cost=0.0023)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "$0.00"),
        (0.00107576, "$0.00108"),
        (0.0023, "$0.00230"),
        (0.0000012345, "$0.00000123"),
        (0.0994, "$0.0994"),
        (0.09999, "$0.10"),
        (0.23, "$0.23"),
        (0.5, "$0.50"),
        (0.999, "$1.00"),
        (12.346, "$12.35"),
        (-0.5, "$-0.50"),
    ],
)
def test_small_sums_have_digits_and_no_powers_of_ten(amount: float, words: str) -> None:
    assert format_usd(amount) == words


def test_a_cost_is_a_number_that_says_what_a_step_costs() -> None:
    cost = Cost(52.54, BILL)
    assert cost == 52.54
    assert f"{cost:.1f}" == "52.5"
    assert repr(cost) == "$52.54, $0.00108 per step"
    assert cost.per_step == pytest.approx(0.00108, rel=5e-3)
    assert repr(Cost(0.0023, PLAIN)) == "$0.00230"
    assert Cost(0.0023, PLAIN).per_step is None
    for again in (copy.deepcopy(cost), pickle.loads(pickle.dumps(cost))):  # noqa: S301 - made one line before
        assert (again, again.bill) == (52.54, BILL)


def test_the_page_has_the_lines_that_make_the_sum() -> None:
    text, html = cost_page("train-1", BILL)
    assert text.splitlines() == [
        "train-1: $52.54",
        "  price: $45.03 per hour for all hosts",
        "  billed time: 1 h",
        "  idle time of pool: 10 min",
        "  steps: 500 so far, 86 ms each, $0.00108 per step",
    ]
    assert "per step" in html


def test_a_price_that_nobody_knows_is_said_to_be_unknown() -> None:
    bill = Bill(price_per_hour=None, billable_seconds=9, retained_seconds=0, cost=None, steps=3, step_seconds=2)
    text, _ = cost_page("train-1", bill)
    assert "train-1: unknown" in text
    assert "steps: 3 so far, 2 s each, cost per step unknown" in text


@pytest.mark.parametrize(("amount", "words"), [(None, ""), (0, "$0.00"), (0.001, "< $0.01"), (0.006, "$0.01")])
def test_a_list_does_not_call_free_what_is_not(amount: float | None, words: str) -> None:
    assert format_dollars(amount) == words
