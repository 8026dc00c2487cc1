"""Entry point of the command: find the subcommand, run it, and convert errors to exit codes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jupyter_smx.cli import completion, conventions
from jupyter_smx.cli.commands.run import RUN_SCRIPT, SHOW_PLAN
from jupyter_smx.cli.commands.shell import OPEN_SHELL
from jupyter_smx.cli.completion import PRINT_COMPLETION
from jupyter_smx.cli.conventions import HELP, PROG, words_before_dashes
from jupyter_smx.cli.output import open_standard
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.cli.surface import terminal_subcommand
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.options.subcommand_parser import Parser
from jupyter_smx.kernel.subcommands import table
from jupyter_smx.kernel.subcommands.surface_subcommands import HELP as HELP_ROW
from jupyter_smx.model.errors import SmxError, ValidationError, suggest_names

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

_JSON = "--json"
_OWN = (_JSON, "--version", *HELP)


def _help(found: Namespace, context: CliContext) -> int:
    """Show the manual, or the page of one subcommand."""
    if found.subcommand:
        row = table.find_row(found.subcommand, PROG, "terminal")
        page = parser_of(SUBCOMMANDS[row.name]).format_help()
    else:
        page = format_manual()
    context.output.show({"help": page}, page)
    return conventions.SUCCESS


_OWN_WAYS = {one.row.name: one for one in (RUN_SCRIPT, SHOW_PLAN, OPEN_SHELL, PRINT_COMPLETION)}
_OWN_WAYS[HELP_ROW.name] = TerminalSubcommand(HELP_ROW, _help)
SUBCOMMANDS = {
    row.name: terminal_subcommand(row) if row.run else _OWN_WAYS[row.name] for row in table.rows_on("terminal")
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and give the exit code (see :data:`conventions.EXIT_CODES`)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if completion.is_completion_request():
        completion.run_argcomplete(command_tree())
    output = open_standard(json=_JSON in words_before_dashes(words))
    client = autostart.client(output.info)
    try:
        return _run(words, CliContext(client, output))
    except KeyboardInterrupt:
        output.info("Interrupted.")
        return conventions.INTERRUPTED
    except BrokenPipeError:  # the reader of our output closed the pipe
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
        raise _unknown_option_error(unknown)
    if "--version" in own:
        from jupyter_smx.model.package_version import installed_version  # noqa: PLC0415 - other commands need no metadata

        context.output.show({"version": installed_version()}, f"{PROG} {installed_version()}")
        return conventions.SUCCESS
    if not rest or set(own) & set(HELP):
        context.output.show({"help": format_manual()}, format_manual())
        return conventions.SUCCESS
    subcommand = SUBCOMMANDS[table.find_row(rest[0], PROG, "terminal").name]
    parser = parser_of(subcommand)
    if set(words_before_dashes(rest)) & set(HELP):
        context.output.show({"help": parser.format_help()}, parser.format_help())
        return conventions.SUCCESS
    return subcommand.run(parser.read(rest[1:]), context)


def parser_of(subcommand: TerminalSubcommand) -> Parser:
    """Make the parser of a subcommand."""
    parser = table.parser_of(subcommand.row, PROG, terminal=True, parents=subcommand.parents)
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
    for name, subcommand in SUBCOMMANDS.items():
        parser = completion.add_completers(parser_of(subcommand), name)
        below.add_parser(name, parents=[parser], add_help=False, help=subcommand.row.help)
    return whole


def format_manual() -> str:
    """Write the page that lists the subcommands and the exit codes."""
    return "\n".join(
        [
            "Manage jobs and warm pools.",
            "",
            *table.format_rows(PROG, table.rows_on("terminal"), terminal=True),
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


def _unknown_option_error(word: str) -> ValidationError:
    cure = suggest_names(word, _OWN) or f"There are {', '.join(_OWN)}."
    return ValidationError(f"{PROG}: {word!r} is not an option.", field="line", value=word, cure=cure)
