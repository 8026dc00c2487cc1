from __future__ import annotations

import shlex
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.options.line_syntax import CLOSE, OPEN, join_continuations, restore_braces, split
from jupyter_smx.model.errors import ValidationError

WORDS = st.lists(st.text(st.characters(exclude_characters="{}\\", exclude_categories=["Cs", "Cn"]), max_size=12))


@given(WORDS)
def test_words_quoted_for_a_shell_come_back_as_they_were(words: Any) -> None:
    assert split(" ".join(shlex.quote(word) for word in words)) == words


@given(st.text(max_size=40))
def test_any_line_gives_words_or_a_sentence(line: str) -> None:
    with suppress(ValidationError):
        assert all(isinstance(word, str) for word in split(line))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("--hp name='two words'", ["--hp", "name=two words"]),
        ('--hp a="say \\"hi\\""', ["--hp", 'a=say "hi"']),
        ("--input x=C:\\data\\new", ["--input", "x=C:\\data\\new"]),
        ("two\\ words", ["two words"]),
        ("a '' b", ["a", "", "b"]),
        ("\\{x\\}", ["{x}"]),
        ("", []),
    ],
)
def test_quotes_are_taken_off_and_backslashes_of_windows_stay(line: str, words: Any) -> None:
    assert split(line) == words


def test_only_braces_outside_quotes_are_expressions() -> None:
    word, text = split("""lr={cfg["l r"]['}']} '{"a": 1}'""")
    assert word == f"lr={OPEN}cfg[\"l r\"]['}}']{CLOSE}"
    assert restore_braces(word) == """lr={cfg["l r"]['}']}"""
    assert text == '{"a": 1}'


@pytest.mark.parametrize("line", ["'open", '"open', "{open", "{open '}'"])
def test_what_is_never_closed_is_named(line: str) -> None:
    with pytest.raises(ValidationError, match="never closed"):
        split(line)


def test_a_backslash_at_the_end_continues_the_line() -> None:
    line, code, taken = join_continuations("--keep-alive 10m \\", "  --hp a=1 \\\n --wait\nx = 1\n")
    assert split(line) == ["--keep-alive", "10m", "--hp", "a=1", "--wait"]
    assert (code, taken) == ("x = 1\n", 3)
