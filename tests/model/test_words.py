from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.text import format_list, format_log_end, format_number


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b"), "a and b"),
        (("a", "b", "c"), "a, b and c"),
        (("a", "b", "c", "d"), "a, b, c and 1 more"),
        (("a", "b", "c", "d", "e"), "a, b, c and 2 more"),
    ],
)
def test_a_few_names_are_said_and_the_others_counted(names: tuple[str, ...], said: str) -> None:
    assert format_list(names) == said


@given(st.lists(st.sampled_from("abc"), min_size=1), st.integers(1, 5))
def test_every_name_is_said_or_counted(names: list[str], most: int) -> None:
    *said, last = format_list(names, most).replace(" and ", ", ").split(", ")
    counted = int(last.removesuffix(" more")) if last.endswith(" more") else 0
    shown = said if counted else [*said, last]
    assert shown == names[:most]
    assert len(shown) + counted == len(names)


@given(st.text())
def test_the_end_of_a_log_is_one_short_line_that_can_be_printed(text: str) -> None:
    assert format_log_end(text).isprintable()
    assert len(format_log_end(text)) <= 601


def test_the_last_lines_of_a_log_count_most() -> None:
    log = "".join(f"line {number}\n" for number in range(9)) + "\x1b[31mImportError\x1b[0m: no\x07 module\r\n\n"
    assert format_log_end(log) == "line 5 | line 6 | line 7 | line 8 | ImportError: no module"
    assert format_log_end("x" * 2_000 + " the cause").endswith("x the cause")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (0.21344, "0.2134"),
        (-12_345.6, "-12346"),
        (123_456, "123456"),
        (1_234_567, "1.23e+06"),
        (0.000_012_345_6, "1.23e-05"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_value_has_four_digits_and_a_count_all_of_its_own(value: float, said: str) -> None:
    assert format_number(value) == said
