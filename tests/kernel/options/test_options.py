from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.options.help_pages import manual
from jupyter_smx.kernel.options.line_parser import LineOptions, parse
from jupyter_smx.model import duration
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.table import BY_SPELLING, TABLE

SINGLE = [option for option in TABLE if option.metavar and not option.repeat]
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)


@given(st.dictionaries(st.sampled_from([option.spellings for option in SINGLE]), NAMES), st.booleans())
def test_every_option_with_a_value_comes_back_from_each_of_its_spellings(values: Any, glued: Any) -> None:
    words = []
    for spellings, value in values.items():
        words += [f"{spellings[-1]}={value}"] if glued else [spellings[0], value]
    found = parse("train", " ".join(words))
    for spellings, value in values.items():
        dest = BY_SPELLING[spellings[-1]].name
        assert found.text(dest) == value


@given(st.integers(0, 10), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_means_its_seconds_in_every_way_of_writing(
    days: Any, hours: Any, minutes: Any, seconds: Any
) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert duration.parse(f"{days}d{hours}h{minutes}m{seconds}s") == duration.parse(str(total)) == total


def test_the_line_of_the_manual_is_read() -> None:
    found = parse(
        "train",
        "--instance-type ml.m5.xlarge -k 10m --as job --input train=data/train -i val=v --hp epochs=3 -p lr=0.1"
        " --send cfg,table --send more --receive model --wait",
    )
    assert found == LineOptions(
        {
            "instance_type": "ml.m5.xlarge",
            "keep_alive": "10m",
            "handle": "job",
            "inputs": ("train=data/train", "val=v"),
            "hyperparameters": ("epochs=3", "lr=0.1"),
            "send": ("cfg", "table", "more"),
            "receive": ("model",),
            "wait": True,
        }
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--keep-alve 10m", "--keep-alve is not an option. Did you mean --keep-alive"),
        ("--keep 10m", "--keep is not an option. Did you mean --keep-alive"),
        ("-x 3", "-x is not an option"),
        ("--keep-alive", "--keep-alive needs a value: DURATION. For example --keep-alive 10m"),
        ("--hp", "--hp needs a value: NAME=VALUE"),
        ("--keep-alive --wait", "--keep-alive needs a value"),
        ("-k 1m -k 2m", "--keep-alive is given twice: 1m and 2m"),
        ("wait", "'wait' is an unexpected argument.*--wait"),
        ("--wait=yes", "--wait"),
        ("--name 'open", "never closed"),
    ],
)
def test_a_wrong_line_names_the_word_and_the_cure(line: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        parse("train", line)


def test_the_value_of_an_option_may_look_like_an_option_when_it_is_glued() -> None:
    assert parse("train", "--hp=--flag=1").words("hyperparameters") == ("--flag=1",)


def test_the_manual_names_every_spelling() -> None:
    for kind in ("train", "process"):
        rows = {line.split()[0].strip(",") for line in manual(kind).splitlines() if line.startswith("  -")}
        assert rows == {option.spellings[0] for option in TABLE if not option.kinds or kind in option.kinds}
