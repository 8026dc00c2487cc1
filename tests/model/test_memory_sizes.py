"""Sizes in binary units: agent, model and browser write them alike, by a table that a test of each side reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.system.resources import memory
from jupyter_smx.model import text

TABLE = Path(__file__).parents[2] / "src" / "__tests__" / "format" / "sizes.json"


@pytest.mark.parametrize(("count", "words"), json.loads(TABLE.read_text(encoding="utf-8")))
def test_agent_and_model_write_a_size_as_the_browser_does(count: int, words: str) -> None:
    assert text.format_size(count) == memory.format_size(count) == words


@given(st.integers(0, 10**16))
def test_a_size_has_a_unit_and_at_most_four_digits_before_its_point(count: int) -> None:
    assert re.fullmatch(r"\d{1,4} B|\d{1,4}\.\d (Ki|Mi|Gi|Ti|Pi)B", text.format_size(count))
