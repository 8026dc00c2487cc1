"""A subcommand is declared once: a notebook and a terminal have the same ones, and a new row is in both at once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.cli import completion as cli_completion
from jupyter_smx.cli import surface
from jupyter_smx.cli.completion import add_completers
from jupyter_smx.cli.main import SUBCOMMANDS, format_manual, parser_of
from jupyter_smx.cli.output import Console
from jupyter_smx.cli.subcommand import CliContext
from jupyter_smx.kernel.magics import completion, subcommands
from jupyter_smx.kernel.magics.subcommands import NotebookSurface
from jupyter_smx.kernel.subcommands import table
from jupyter_smx.kernel.subcommands.declaration import Argument, Result, Subcommand
from jupyter_smx.kernel.subcommands.job_subcommands import STATUSES
from jupyter_smx.kernel.subcommands.table import NOTEBOOK_ONLY, TABLE, TERMINAL_ONLY
from jupyter_smx.kernel.text.pages import text_page
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = Subcommand(
    "greet",
    "greet a job",
    lambda found, _: Result({"greeting": found.word, "loud": found.loud}, text_page(f"Hello, {found.word}.")),
    (
        Argument(name="word", metavar="WORD", help="what to greet", required="always", completion="status"),
        Argument(name="loud", spellings=("--loud",), help="greet loudly"),
    ),
)


def test_both_sides_have_every_row_and_only_the_listed_ones_alone() -> None:
    assert set(subcommands.NAMES) - set(SUBCOMMANDS) == set(NOTEBOOK_ONLY)
    assert set(SUBCOMMANDS) - set(subcommands.NAMES) == set(TERMINAL_ONLY)
    assert set(subcommands.NAMES) & set(SUBCOMMANDS) == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_both_sides_say_the_same_of_a_row(name: str) -> None:
    notebook, terminal = table.parser_of(TABLE[name], "%smx", terminal=False), parser_of(SUBCOMMANDS[name])
    options = {word for action in terminal._actions for word in action.option_strings}
    assert {word for action in notebook._actions for word in action.option_strings} == options - {
        "--json",
        "-h",
        "--help",
    }
    assert notebook.description == terminal.description
    assert f"usage: {notebook.usage}" in " ".join(notebook.format_help().split())
    assert f"usage: {terminal.usage}" in " ".join(terminal.format_help().split())
    assert SUBCOMMANDS[name].help == TABLE[name].help
    words = ["x"] * 4
    refusals = []
    for parser in (notebook, terminal):
        with pytest.raises(ValidationError) as refused:
            parser.read(words)
        refusals.append(refused.value.message.partition(": ")[2])
    assert refusals[0] == refusals[1] == "'x' belongs to no option."


@pytest.fixture
def greet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Add a row to the table, as an edit of ``table.py`` would, and give what runs a line in the notebook."""
    monkeypatch.setitem(TABLE, "greet", ROW)
    monkeypatch.setattr(subcommands, "NAMES", (*subcommands.NAMES, "greet"))
    monkeypatch.setattr(completion, "NAMES", subcommands.NAMES)
    monkeypatch.setitem(SUBCOMMANDS, "greet", surface.terminal_subcommand(ROW))

    def run(*words: str) -> list[tuple[str, str]]:
        shown: list[tuple[str, str]] = []
        client: Any = None
        notebook = NotebookSurface(client, lambda *page: shown.append(page), str, lambda *_: None)
        subcommands.run([*words], notebook, SimpleNamespace())  # type: ignore[arg-type]  # the row needs no defaults
        return shown

    return run


class Stream:
    """A stream that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        return False


def terminal(*words: str, as_json: bool = False) -> str:
    out: Any = Stream()
    client: Any = None
    subcommand = SUBCOMMANDS["greet"]
    context = CliContext(client, Console(json=as_json, stdout=out, stderr=out))
    assert subcommand.run(parser_of(subcommand).read(words), context) == 0
    text: str = out.text
    return text


def test_a_new_row_runs_on_both_sides(greet: Callable[..., Any]) -> None:
    assert greet("greet", "fit")[0][0] == "Hello, fit."
    assert terminal("fit") == "Hello, fit.\n"
    assert json.loads(terminal("fit", "--loud", as_json=True)) == {"greeting": "fit", "loud": True}
    for refused in (lambda: greet("greet"), terminal):
        with pytest.raises(ValidationError, match="are required: WORD"):
            refused()


def test_a_new_row_is_in_both_manuals_and_both_completions(greet: Callable[..., Any]) -> None:
    assert "%smx greet WORD [--loud]" in subcommands.manual()
    assert "greet loudly" in greet("greet", "--help")[0][0]
    assert "jupyter smx greet WORD [--loud]" in format_manual()
    assert "--loud" in parser_of(SUBCOMMANDS["greet"]).format_help()
    line = SimpleNamespace(symbol="", text_until_cursor="%smx greet ")
    assert completion.complete_subcommand(None, line) == [
        "--loud",
        "InProgress",
        "Completed",
        "Failed",
        "Stopping",
        "Stopped",
    ]
    assert "greet" in completion.complete_subcommand(None, SimpleNamespace(symbol="gr", text_until_cursor="%smx gr"))
    parser = add_completers(parser_of(SUBCOMMANDS["greet"]), "greet")
    offered: Any = next(action for action in parser._actions if action.dest == "word")
    assert list(offered.completer()) == list(STATUSES)


@pytest.mark.parametrize("name", TABLE)
def test_a_shell_completes_each_argument_as_its_row_has_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_completion, "complete_argument", lambda argument: [argument.completion])
    parser = add_completers(parser_of(SUBCOMMANDS[name]), name)
    completers = {action.dest: getattr(action, "completer", None) for action in parser._actions}
    for argument in TABLE[name].arguments:
        completer: Any = completers[argument.name]
        # A shell completes files by itself.
        expected = None if argument.completion in ("", "file") else [argument.completion]
        assert (completer and completer()) == expected
