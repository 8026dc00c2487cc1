"""Values of the notebook in the options of a line that take one value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_smx.kernel.options.line_parser import expand_expressions, parse
from jupyter_smx.kernel.options.line_syntax import OPEN
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.table import TABLE

NAMESPACE = {"there": Path("/data/run7"), "cfg": {"role": "Trainer", "minutes": 5}, "n": 3, "key": "lr"}
ONE_VALUE = [option for option in TABLE if option.metavar and not option.repeat]


def read(line: str) -> Any:
    return request_from_options(
        "train", expand_expressions(parse("train", line), NAMESPACE), NAMESPACE, Path("/home/me")
    )


def test_a_checkpoint_a_role_and_a_number_come_from_the_notebook() -> None:
    wish = read('--checkpoint {there}/more --role {cfg["role"]} -n {n} --keep-alive {cfg["minutes"]}m --spot')
    assert (wish.fields["checkpoint"], wish.fields["role"]) == ("/data/run7/more", "Trainer")
    assert (wish.fields["keep_alive"], wish.instance_count) == (300, "3")


def test_so_does_the_name_of_a_hyperparameter_and_what_is_quoted_is_text() -> None:
    assert read("--hp {key}={n} --role '{n}'").hyperparameters == {"lr": 3}
    assert read("--role '{n}'").fields["role"] == "{n}"
    with pytest.raises(ValidationError, match="lr"):
        read("--hp {key}=1 --hp lr=2")


@pytest.mark.parametrize("option", [each.spellings[-1] for each in ONE_VALUE])
def test_no_option_keeps_what_only_the_line_knows(option: str) -> None:
    found = expand_expressions(parse("train", f"{option} {{n}}"), NAMESPACE)
    assert not [value for value in found.values.values() if isinstance(value, str) and OPEN in value]


def test_a_name_that_is_none_is_said_with_its_option() -> None:
    with pytest.raises(ValidationError, match=r"--checkpoint: the notebook has no variable 'their'.*there"):
        read("--checkpoint {their}")


def test_the_name_of_the_job_needs_no_variable() -> None:
    assert read("--checkpoint s3://b/{job_name}/kept").fields["checkpoint"] == "s3://b/{job_name}/kept"
    with pytest.raises(ValidationError, match=r"--checkpoint: the notebook has no variable 'job_names'"):
        read("--checkpoint s3://b/{job_names}/kept")
