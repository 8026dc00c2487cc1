"""Names of jobs: what may be one, what is made of a text that may not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model import name
from jupyter_smx.model.errors import ValidationError

SAGEMAKERS = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
ID = "0123456789ab"


@given(st.text(alphabet="aZ9-_. ü", max_size=70))
def test_a_name_passes_exactly_when_the_whole_name_is_one_of_sagemakers(text: str) -> None:
    whole = f"{text}-{ID[:6]}"
    lawful = bool(SAGEMAKERS.fullmatch(text)) and len(whole) <= 63
    if not lawful:
        with pytest.raises(ValidationError) as refusal:
            name.check_base_name(text)
        assert refusal.value.field == "name"
        return
    assert name.check_base_name(text) == text
    assert SAGEMAKERS.fullmatch(name.job_name(text, ID))


@given(st.text(max_size=200))
def test_the_name_that_is_proposed_would_pass(text: str) -> None:
    try:
        name.check_base_name(text)
    except ValidationError as refusal:
        proposed = refusal.cure.split("'")[1]
        assert name.check_base_name(proposed) == proposed


@given(st.text(max_size=200))
def test_any_text_makes_a_name_that_would_pass(text: str) -> None:
    made = name.base_name(text, "job")
    assert name.check_base_name(made) == made
    assert made == "job" or made in re.sub(r"[^a-zA-Z0-9]+", "-", text)


@pytest.mark.parametrize(
    ("text", "made"),
    [("train_v2.py", "train-v2-py"), ("", "job"), ("über", "ber"), ("é" * 9, "job"), ("a" * 55 + "-" + "b", "a" * 55)],
)
def test_what_cannot_stand_in_a_name_becomes_a_hyphen_or_goes(text: str, made: str) -> None:
    assert name.base_name(text, "job") == made


@pytest.mark.parametrize("text", ["0123456789a", "g" * 12, "0" * 33, "", "0123456789AB", "../../../etc/passwd"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        name.check_id(text)


@pytest.mark.parametrize("text", [ID, "0" * 32])
def test_an_id_passes(text: str) -> None:
    assert name.check_id(text) == text
