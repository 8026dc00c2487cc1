"""Values of the notebook in the options of a line that take one value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from jupyter_smx.kernel.options.line_syntax import OPEN
from jupyter_smx.kernel.options.table import TABLE, expand_expressions, parse
from jupyter_smx.kernel.request.request import request_from_options
from jupyter_smx.model.errors import ValidationError

NAMESPACE = {"there": Path("/data/run7"), "cfg": {"role": "Trainer", "minutes": 5}, "n": 3, "key": "lr"}
ONE_VALUE = [option for option in TABLE if option.metavar and not option.many]


def read(line: str) -> Any:
    return request_from_options(
        "train", expand_expressions(parse("train", line), NAMESPACE), NAMESPACE, Path("/home/me")
    )


def test_a_checkpoint_a_role_and_a_number_come_from_the_notebook() -> None:
    wish = read('--checkpoint {there}/more --role {cfg["role"]} -n {n} --keep-alive {cfg["minutes"]}m --spot')
    assert (wish.checkpoint, wish.role, wish.instance_count) == ("/data/run7/more", "Trainer", "3")
    assert wish.keep_alive == "5m"


def test_so_does_the_name_of_a_hyperparameter_and_what_is_quoted_is_text() -> None:
    assert read("--hp {key}={n} --role '{n}'").hyperparameters == {"lr": 3}
    assert read("--role '{n}'").role == "{n}"
    with pytest.raises(ValidationError, match="lr"):
        read("--hp {key}=1 --hp lr=2")


@pytest.mark.parametrize("option", [each.spellings[-1] for each in ONE_VALUE if each.dest not in ("send", "receive")])
def test_no_option_keeps_what_only_the_line_knows(option: str) -> None:
    found = expand_expressions(parse("train", f"{option} {{n}}"), NAMESPACE)
    assert not [value for value in asdict(found).values() if isinstance(value, str) and OPEN in value]


def test_a_name_that_is_none_is_said_with_its_option() -> None:
    with pytest.raises(ValidationError, match=r"--checkpoint: the notebook has no variable 'their'.*there"):
        read("--checkpoint {their}")
