"""A subcommand is declared once: a notebook and a terminal have the same ones, and a new row is in both at once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.cli import completion as cli_completion
from jupyter_smx.cli import surface
from jupyter_smx.cli.completion import add_completers
from jupyter_smx.cli.main import SUBCOMMANDS, format_manual, main, parser_of
from jupyter_smx.cli.output import Console
from jupyter_smx.cli.subcommand import CliContext
from jupyter_smx.kernel.magics import completion, subcommands
from jupyter_smx.kernel.magics.subcommands import NotebookSurface
from jupyter_smx.kernel.options.defaults import Defaults
from jupyter_smx.kernel.subcommands import table
from jupyter_smx.kernel.subcommands.declaration import Argument, Result, Subcommand
from jupyter_smx.kernel.subcommands.job_subcommands import STATUSES
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
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


SHARED = [name for name, row in TABLE.items() if row.only is None]
NOTEBOOK_ONLY = {"config"}
TERMINAL_ONLY = {"run", "plan", "shell", "completion"}


def notebook(*words: str) -> str:
    """Run a line of ``%smx`` and give the text that it shows."""
    shown: list[tuple[str, str]] = []
    client: Any = None
    surface = NotebookSurface(client, lambda *page: shown.append(page), str, lambda *_: None)
    subcommands.run([*words], surface, Defaults())
    return shown[0][0]


def in_terminal(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run ``jupyter smx`` and give its code and all that it writes."""
    code = main(words)
    written = capsys.readouterr()
    return code, written.out + written.err


def test_both_sides_have_every_row_and_only_the_listed_ones_alone() -> None:
    assert {row.name for row in rows_on("notebook")} == {*SHARED, *NOTEBOOK_ONLY}
    assert {row.name for row in rows_on("terminal")} == {*SHARED, *TERMINAL_ONLY} == set(SUBCOMMANDS)
    assert set(TABLE) == {*SHARED, *NOTEBOOK_ONLY, *TERMINAL_ONLY}


@pytest.mark.parametrize("name", sorted(TERMINAL_ONLY))
def test_a_notebook_says_what_to_use_instead_of_a_subcommand_of_terminals(name: str) -> None:
    for words in ((name,), (name, "--help"), ("help", name)):
        with pytest.raises(ValidationError) as refused:
            notebook(*words)
        assert str(refused.value).startswith(f"%smx: {name} works in a terminal only. ")
        assert refused.value.cure == TABLE[name].cure
    assert refused.value.cure


@pytest.mark.parametrize("words", [("config",), ("config", "--help"), ("help", "config"), ("config", "keep_alive=5m")])
def test_a_terminal_says_what_to_use_instead_of_config(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = in_terminal(capsys, *words)
    assert code == 2
    assert text.startswith("jupyter smx: config works in a notebook only. ")
    assert "c.SmxMagics in ipython_config.py" in text


@pytest.mark.parametrize("name", SHARED)
def test_help_and_the_dashes_show_the_same_page_of_one_subcommand(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notebook("help", name) == notebook(name, "--help") == notebook(name, "-h")
    assert f"usage: %smx {name}" in notebook("help", name)
    assert in_terminal(capsys, "help", name) == in_terminal(capsys, name, "--help") != (0, f"{format_manual()}\n")


def test_help_of_config_is_its_own_page() -> None:
    page = notebook("config", "--help")
    assert "usage: %smx config [OPTION=VALUE …]" in page
    assert "Manage jobs" not in page


def test_help_without_a_name_is_the_manual_and_an_unknown_name_gets_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert notebook("help") == notebook() == notebook("--help") == subcommands.manual()
    assert in_terminal(capsys, "help")[1] == in_terminal(capsys)[1] == f"{format_manual()}\n"
    with pytest.raises(ValidationError, match="logs"):
        notebook("help", "lgs")
    assert "logs" in in_terminal(capsys, "help", "lgs")[1]


@pytest.mark.parametrize("name", SHARED)
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
    words = ["x"] * 4
    refusals = []
    for parser in (notebook, terminal):
        with pytest.raises(ValidationError) as refused:
            parser.read(words)
        refusals.append(refused.value.message.partition(": ")[2])
    assert refusals[0] == refusals[1] == "'x' is an unexpected argument."


@pytest.fixture
def greet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Add a row to the table, as an edit of ``table.py`` would, and give what runs a line in the notebook."""
    monkeypatch.setitem(TABLE, "greet", ROW)
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
    assert completion.complete_line("%smx greet ", "", "local") == [
        "--loud",
        "InProgress",
        "Completed",
        "Failed",
        "Stopping",
        "Stopped",
    ]
    assert "greet" in completion.complete_line("%smx gr", "gr", "local")
    parser = add_completers(parser_of(SUBCOMMANDS["greet"]), "greet")
    offered: Any = next(action for action in parser._actions if action.dest == "word")
    assert list(offered.completer()) == list(STATUSES)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_shell_completes_each_argument_as_its_row_has_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_completion, "complete_argument", lambda argument, _word: [argument.name])
    parser = add_completers(parser_of(SUBCOMMANDS[name]), name)
    completers = {action.dest: getattr(action, "completer", None) for action in parser._actions}
    for argument in TABLE[name].arguments:
        completer: Any = completers[argument.name]
        # A shell completes files by itself.
        has_names = bool(argument.choices) or argument.completion not in ("", "file")
        expected = ([*SUBCOMMANDS] if argument.completion == "subcommand" else [argument.name]) if has_names else None
        assert (completer and completer()) == expected
