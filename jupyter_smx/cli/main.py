"""The command's entry: finds the subcommand, runs it, and turns what it raises into an exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jupyter_smx.cli import completion, conventions
from jupyter_smx.cli.commands.run import PLAN, RUN
from jupyter_smx.cli.commands.shell import SHELL
from jupyter_smx.cli.completion import COMPLETION
from jupyter_smx.cli.conventions import HELP, PROG, words_before_dashes
from jupyter_smx.cli.output import open_standard
from jupyter_smx.cli.subcommand import CliContext
from jupyter_smx.cli.surface import shared_parser, terminal_subcommand
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.options.subcommand_parser import Parser
from jupyter_smx.kernel.subcommands.table import ROWS, format_rows
from jupyter_smx.model.errors import SmxError, ValidationError, suggest_names
from jupyter_smx.package_version import installed_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.cli.subcommand import TerminalSubcommand

_ALL = (RUN, PLAN, *map(terminal_subcommand, ROWS), SHELL, COMPLETION)
SUBCOMMANDS = {subcommand.name: subcommand for subcommand in _ALL}
_JSON = "--json"
_OWN = (_JSON, "--version", *HELP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and give the exit code (see :data:`conventions.EXIT_CODES`)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if completion.is_completion_request():
        completion.run_argcomplete(command_tree())
    output = open_standard(json=_JSON in words_before_dashes(words))
    client = autostart.client()
    try:
        return _run(words, CliContext(client, output))
    except KeyboardInterrupt:
        output.info("Interrupted.")
        return conventions.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has what was wanted
        return conventions.BROKEN_PIPE
    except SmxError as error:
        output.error(error)
        return conventions.error_exit_code(error)
    finally:
        client.close()


def _run(words: list[str], context: CliContext) -> int:
    at = next((number for number, word in enumerate(words) if not word.startswith("-")), len(words))
    own, rest = words[:at], words[at:]
    unknown = next((word for word in own if word not in _OWN), None)
    if unknown is not None:
        raise _unknown_word_error(unknown, "an option", _OWN)
    if "--version" in own:
        context.output.show({"version": installed_version()}, f"{PROG} {installed_version()}")
        return conventions.SUCCESS
    if not rest or set(own) & set(HELP) or rest == ["help"]:
        context.output.show({"help": format_manual()}, format_manual())
        return conventions.SUCCESS
    subcommand = SUBCOMMANDS.get(rest[0])
    if subcommand is None:
        raise _unknown_word_error(rest[0], "a subcommand", SUBCOMMANDS)
    parser = parser_of(subcommand)
    if set(words_before_dashes(rest)) & set(HELP):
        context.output.show({"help": parser.format_help()}, parser.format_help())
        return conventions.SUCCESS
    return subcommand.run(parser.read(rest[1:]), context)


def parser_of(subcommand: TerminalSubcommand) -> Parser:
    """Make the parser of a subcommand."""
    if subcommand.arguments is None:
        parser = shared_parser(subcommand.name)
    else:
        usage = f"{PROG} {subcommand.name} {subcommand.usage}".rstrip()
        name = f"{PROG} {subcommand.name}"
        parser = Parser(prog=name, usage=usage, description=subcommand.help, parents=list(subcommand.parents))
        subcommand.arguments(parser)
    parser.add_argument(_JSON, action="store_true", help="one JSON document on stdout, an error as JSON on stderr")
    if not subcommand.parents:
        parser.add_argument(*HELP, action="store_true", help="this page")
    return parser


def command_tree() -> Parser:
    """Make one parser with all subcommands in it, which is what argcomplete walks."""
    whole = Parser(prog=PROG, usage=f"{PROG} SUBCOMMAND")
    for option in _OWN:
        whole.add_argument(option, action="store_true", dest=option.strip("-"))
    below = whole.add_subparsers()
    for subcommand in SUBCOMMANDS.values():
        parser = completion.add_completers(parser_of(subcommand), subcommand.name)
        below.add_parser(subcommand.name, parents=[parser], add_help=False, help=subcommand.help)
    return whole


def format_manual() -> str:
    """Write the page that lists the subcommands and the exit codes."""
    return "\n".join(
        [
            "Manage jobs and warm pools.",
            "",
            *format_rows(PROG, ((row.name, row.usage, row.help) for row in SUBCOMMANDS.values())),
            "",
            f"Each takes {_JSON} and --help; `{PROG} --version` shows the version.",
            "",
            "Exit codes:",
            *_columns(conventions.EXIT_CODES),
        ]
    )


def _columns(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows))
    return [f"  {left.ljust(width)}  {right}" for left, right in rows.items()]


def _unknown_word_error(word: str, what: str, known: Sequence[str] | dict[str, TerminalSubcommand]) -> ValidationError:
    cure = suggest_names(word, known) or f"There are {', '.join(known)}."
    return ValidationError(f"{PROG}: {word!r} is not {what}.", field="line", value=word, cure=cure)
