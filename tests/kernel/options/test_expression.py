from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.options.line_syntax import CLOSE, OPEN, resolve, value_of
from jupyter_smx.kernel.options.option_values import encode_hyperparameter
from jupyter_smx.model.errors import ValidationError


class Bomb:
    """Every way to run it is a hit; naming it is none."""

    def __init__(self) -> None:
        self.hits = []

    def __call__(self, *_: Any) -> Any:
        self.hits.append("call")
        return self

    def __add__(self, _: Any) -> Any:
        self.hits.append("add")
        return self

    def __bool__(self) -> Any:
        self.hits.append("bool")
        return True


def test_a_path_of_names_attributes_and_constant_subscripts_gives_the_value() -> None:
    namespace = {"cfg": SimpleNamespace(layers=[1, {"size": 64}])}
    assert resolve("cfg.layers[-1]['size']", namespace, "--hp") == 64
    assert resolve(" cfg ", namespace, "--hp") is namespace["cfg"]


@pytest.mark.parametrize(
    "expression",
    [
        "bomb()",
        "bomb + 1",
        "bomb if bomb else bomb",
        "[bomb for _ in (1,)]",
        "bomb[bomb()]",
        "bomb[0:1]",
        "lambda: bomb",
        "(x := bomb)",
        "f'{bomb()}'",
        "bomb.__class__",
        "bomb, bomb",
        "1",
        "",
        "bomb[True]",
        "import os",
    ],
)
def test_nothing_on_the_line_is_called_or_computed(expression: str) -> None:
    bomb = Bomb()
    with pytest.raises(ValidationError, match="not a notebook variable"):
        resolve(expression, {"bomb": bomb, "x": 1}, "--hp")
    assert bomb.hits == []


@given(st.text(max_size=30))
def test_any_text_between_braces_is_a_value_or_a_sentence_and_calls_nothing(expression: str) -> None:
    bomb = Bomb()
    with suppress(ValidationError):
        resolve(expression, {"b": bomb}, "--hp")
    assert bomb.hits == []


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match="Did you mean config"):
        resolve("confg.lr", {"config": 1}, "--hp lr")


def test_a_step_that_the_value_lacks_is_named_with_its_owner() -> None:
    with pytest.raises(ValidationError, match=r"cfg\['a'\] is a int and has no \.b"):
        resolve("cfg['a'].b", {"cfg": {"a": 1}}, "--hp")


def test_a_whole_word_keeps_the_type_and_a_part_becomes_text() -> None:
    namespace = {"n": 3}
    assert value_of(f"{OPEN}n{CLOSE}", namespace, "--hp") == 3
    assert value_of(f"run-{OPEN}n{CLOSE}", namespace, "--hp") == "run-3"
    assert value_of("{n}", namespace, "--hp") == "{n}"


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.recursive(st.none() | st.booleans() | st.integers() | FINITE | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_a_hyperparameter_is_text_as_it_is_and_json_otherwise(value: Any) -> None:
    written = encode_hyperparameter("x", value)
    assert written == value if isinstance(value, str) else json.loads(written) == value


def test_scalars_of_numpy_and_paths_are_hyperparameters_and_objects_are_not() -> None:
    numpy = pytest.importorskip("numpy")
    assert encode_hyperparameter("n", numpy.int64(3)) == "3"
    assert encode_hyperparameter("p", Path("/data")) == '"/data"'
    with pytest.raises(ValidationError, match="--send model"):
        encode_hyperparameter("model", object())
