"""The value of a hyperparameter: a text in JSON is the same text for a script, whatever it looks like."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.contract.hyperparameters import decode
from jupyter_smx.model.redaction import redact_hyperparameters
from jupyter_smx.model.request_texts import decode_text, encode_text, format_hyperparameter


@given(st.text() | st.sampled_from(["1.10", "true", "null", "[1]", '"a"', '{"lr": 0.1}', ""]))
def test_encode_text_any_text_is_read_back_by_the_script_and_here(text: str) -> None:
    value = encode_text(text)
    assert decode(value) == text
    assert decode_text(value) == text


@pytest.mark.parametrize("value", ["0.1", "adam", "[1, 2]", '{"a": "b"}', '"open', '"a" "b"', "true", ""])
def test_decode_text_other_values_stay_as_they_are(value: str) -> None:
    assert decode_text(value) == value
    assert format_hyperparameter(value) == value


@pytest.mark.parametrize(
    ("text", "shown"), [("adam", "adam"), ("a b", "a b"), ("1.10", '"1.10"'), ("true", '"true"'), ("", "")]
)
def test_format_hyperparameter_quotes_only_text_that_looks_like_a_value(text: str, shown: str) -> None:
    assert format_hyperparameter(encode_text(text)) == shown


def test_redact_hyperparameters_json_string_stays_json() -> None:
    url = "https://h/x?access_token=hunter2"
    found = redact_hyperparameters({"a": encode_text(url), "b": url, "c": "0.1"})
    assert json.loads(found["a"]) == found["b"] == "https://h/x?access_token=…"
    assert found["c"] == "0.1"
