"""A grid over lists of hyperparameters: every point once, in order, with sentences for what is no grid."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.request.grid import grid_of
from jupyter_smx.model.errors import ValidationError

values = st.lists(st.one_of(st.integers(), st.booleans(), st.text(max_size=5)), min_size=1, max_size=4)


@given(st.dictionaries(st.sampled_from(["lr", "depth", "opt"]), values, min_size=1), st.booleans())
def test_every_point_is_one_task_and_the_last_parameter_changes_fastest(
    swept: dict[str, list[Any]], as_text: bool
) -> None:
    given_values = {name: json.dumps(each) if as_text else each for name, each in swept.items()}
    grid = grid_of({"epochs": 3, **given_values})
    points = [dict(zip(swept, point, strict=True)) for point in itertools.product(*swept.values())]
    written = [{n: v if isinstance(v, str) else json.dumps(v) for n, v in point.items()} for point in points]
    assert [task.hyperparameters for task in grid.tasks] == written
    assert grid.fixed == {"epochs": 3}
    assert grid.title == f"sweep {', '.join(swept)}"


def test_labels_name_what_differs() -> None:
    grid = grid_of({"lr": [0.1, 0.01], "opt": ("adam",), "note": "a [b]"})
    assert [task.label for task in grid.tasks] == ["lr=0.1, opt=adam", "lr=0.01, opt=adam"]
    assert grid.fixed == {"note": "a [b]"}
    of_urls = grid_of({"db": ["ftp://me:hunter2@h/a", "ftp://me:hunter2@h/b"]})
    assert [task.label for task in of_urls.tasks] == ["db=ftp://me:…@h/a", "db=ftp://me:…@h/b"]
    assert of_urls.tasks[0].hyperparameters == {"db": "ftp://me:hunter2@h/a"}, "the job needs it"


def test_ranges_and_arrays_of_numpy_are_lists() -> None:
    class Vector:
        shape = (2,)

        def tolist(self) -> list[float]:
            return [0.5, 0.25]

    grid = grid_of({"n": range(2), "x": Vector()})
    assert [task.hyperparameters for task in grid.tasks][:2] == [{"n": "0", "x": "0.5"}, {"n": "0", "x": "0.25"}]


@pytest.mark.parametrize(
    ("hyperparameters", "sentence"),
    [
        ({"lr": "0.1"}, "no hyperparameter has a list of values"),
        ({}, "no hyperparameter has a list of values"),
        ({"lr": []}, "has no value to sweep over"),
        ({"lr": "[0.1,"}, "is not a list of values for a sweep"),
        ({"a": range(200), "b": range(51)}, "200 × 51 = 10200 tasks"),
        ({"f": [object()]}, "a object cannot be a hyperparameter"),
    ],
)
def test_what_is_no_grid_gets_a_sentence(hyperparameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        grid_of(hyperparameters)


def test_an_empty_list_is_refused_with_an_example_of_the_same_name() -> None:
    with pytest.raises(ValidationError) as caught:
        grid_of({"depth": []})
    assert caught.value.rule
    assert "--hp depth=[0.1,0.01] --sweep" in caught.value.cure
