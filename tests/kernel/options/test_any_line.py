"""Any text after ``%%train``: it is parsed, or an error names its field, and nothing is ever evaluated."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jupyter_smx.kernel.client.client import _encode
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.options.line_syntax import join_continuations, split
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.options.table import TABLE

FOLDER = Path("/nowhere/at/all")
HERE = SubmissionContext(python="/usr/bin/python3", python_version="3.11", folder=FOLDER)
SPELLINGS = [spelling for option in TABLE for spelling in option.spellings]


class Mine:
    """A value of the notebook that records each operation on it."""

    touched: list[str] = []  # noqa: RUF012 - one list for the class and the test

    def __call__(self, *_: object) -> str:
        self.touched.append("called")
        return "x"

    def __add__(self, _: object) -> str:
        self.touched.append("added")
        return "x"

    __radd__ = __add__

    def __len__(self) -> int:
        self.touched.append("measured")
        return 1


def betray(*_: object) -> None:
    Mine.touched.append("evaluated")


NAMESPACE: dict[str, Any] = {
    "mine": Mine(), "betray": betray, "n": 3, "text": "a b", "cfg": {"a": [1, {"b": 2}]}, "__import__": betray,
    "exec": betray, "eval": betray,
}  # fmt: skip

values = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "{mine()}", "{betray()}", "{mine + 1}", "{len(mine)}", "{__import__('os').system('true')}", "{n}",
            "{cfg['a'][1]['b']}", "{cfg[n]}", "{n.real}", "{", "}", "{}", "{{n}}", "'", '"', "\\", "a=b", "=", "=b",
            "a=", "10m", "-1", "0", "train=/x,mode=zip", "train=s3://b/c", "a:b:1", "a:b:x", "::", "x" * 300, "\0",
            "\ud800", "🚀", "(lambda: betray())()", "a,b,,c", "$(betray)", "`betray`", "!betray", "9" * 400,
            "--wait", "%%train",
        ]
    ),
)  # fmt: skip
words = st.one_of(
    st.sampled_from(SPELLINGS),
    values,
    st.builds(lambda spelling, value: f"{spelling}={value}", st.sampled_from(SPELLINGS), values),
    st.builds(lambda spelling, value: f"{spelling} {value}", st.sampled_from(SPELLINGS), values),
    values.map(shlex.quote),
)
lines = st.lists(words, max_size=6).map(" ".join)
everything = settings(max_examples=10 * settings.default.max_examples, suppress_health_check=list(HealthCheck))


def read(kind: Any, line: str, cell: str = "x = 1\n") -> Any:
    """Do with a line what the magic does before anything is created."""
    line, code, before = join_continuations(line, cell)
    options = parse(kind, line)
    spec = request_from_options(kind, options, NAMESPACE, FOLDER).build_spec(code, before, HERE, 0.0)
    assert len(_encode(spec))
    return spec


@everything
@given(kind=st.sampled_from(["train", "process"]), line=st.one_of(lines, st.text(max_size=60)))
@example(kind="train", line="--hp lr={betray()}")
@example(kind="train", line="--keep-alive " + "9" * 5000)
@example(kind="process", line="--output a=b:c:d")
@example(kind="train", line="--hp a=\ud800")
@example(kind="train", line="--requirements \0")
def test_any_line_is_a_wish_or_a_sentence_with_a_field_and_nothing_is_evaluated(kind: str, line: str) -> None:
    Mine.touched.clear()
    try:
        read(kind, line)
    except ValidationError as refusal:
        assert refusal.field, refusal  # noqa: PT017
        assert str(refusal)  # noqa: PT017
    assert Mine.touched == []


AWKWARD = [
    "\0",
    "a\0b",
    "a=\0",
    "\ud800",
    "x" * 300,
    "x" * 5000,
    "/" + "y/" * 3000,
    "~no-such-user/x",
    "",
    "=",
    "a\tb",
    "\u202e",
]


def refusal_of(kind: str, line: str) -> Exception | None:
    try:
        read(kind, line)
    except Exception as error:  # noqa: BLE001 - the test names the line
        return error
    return None


@pytest.mark.parametrize("kind", ["train", "process"])
def test_each_option_refuses_an_awkward_value_by_a_sentence(kind: str) -> None:
    spelled = [(f"{name} {shlex.quote(value)}", f"{name}={value}") for name in SPELLINGS for value in AWKWARD]
    refusals = {line: refusal_of(kind, line) for pair in spelled for line in pair}
    assert any(refusals.values())
    assert [
        (line[:60], error)
        for line, error in refusals.items()
        if error and not (isinstance(error, ValidationError) and error.field)
    ] == []


def test_a_long_list_of_requirements_is_no_name_of_a_file() -> None:
    packages = ",".join(f"package{number}" for number in range(100))
    assert len(read("train", f"--python uv:{packages}").requirements) == 100


@everything
@given(line=lines, cell=st.text(max_size=40))
def test_any_cell_under_any_line_is_a_wish_or_a_sentence(line: str, cell: str) -> None:
    try:
        read("train", line, cell)
    except ValidationError as refusal:
        assert refusal.field  # noqa: PT017


SAFE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="{}\\\0\ufdd0\ufdd1"), min_size=1, max_size=20
)


@settings(suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True), SAFE, max_size=5))
def test_a_quoted_value_comes_back_as_it_was(parameters: dict[str, str]) -> None:
    line = " ".join(f"--hp {shlex.quote(f'{name}={value}')}" for name, value in parameters.items())
    spec = read("train", line)
    assert spec.hyperparameters == parameters


@pytest.mark.parametrize("line", ["--hp a=\ufdd0", "--hp 'a=\ufdd1'", "\ufdd0n\ufdd1"])
def test_what_marks_a_brace_is_refused_and_does_not_become_one(line: str) -> None:
    with pytest.raises(ValidationError, match=r"U\+FDD[01], which is not a character") as told:
        read("train", line)
    assert told.value.field == "line"


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.spellings[-1])
def test_every_option_of_the_table_takes_its_own_example(option: Any) -> None:
    for spelling in option.spellings:
        line = f"{spelling} {option.example}" if option.metavar else spelling
        kind = "process" if option.spelling == "--output" or option.kinds == ("process",) else "train"
        assert parse(kind, line)
        try:
            read(kind, line)
        except SmxError as refusal:
            # The files of the example need not exist; for a missing one, its own field has the error.
            assert refusal.field  # noqa: PT017
        if option.metavar:
            with pytest.raises(ValidationError):
                parse(kind, spelling)


@given(st.text(max_size=60))
def test_words_are_split_the_same_way_twice(line: str) -> None:
    try:
        found = split(line)
    except ValidationError:
        return
    assert split(" ".join(shlex.quote(word) for word in found if not set(word) & set("\\\ufdd0\ufdd1"))) == [
        word for word in found if not set(word) & set("\\\ufdd0\ufdd1")
    ]
