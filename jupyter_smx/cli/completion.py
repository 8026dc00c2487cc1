"""Shell completion: ``completion`` prints the script that a shell loads; argcomplete requests the names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_smx.cli import conventions
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.subcommands.completion import complete_argument, complete_option_value, has_values
from jupyter_smx.kernel.subcommands.surface_subcommands import COMPLETION, SHELLS
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.options.table import ROWS
from jupyter_smx.model.options.table import TABLE as OPTIONS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from jupyter_smx.kernel.options.subcommand_parser import Parser
    from jupyter_smx.kernel.subcommands.declaration import Argument
    from jupyter_smx.model.options.option import Option

COMMANDS = ("jupyter-smx", "jupyter")
"""``jupyter`` hands what follows ``smx`` on to us."""


def _run(found: Namespace, context: CliContext) -> int:
    shell = match_choice(found.shell, SHELLS, "SHELL")
    try:
        from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError:
        raise SmxError(
            "Completion needs the package argcomplete, which is not installed.",
            field="shell",
            cure="Install it: pip install 'jupyter-smx[cli]'.",
        ) from None
    code = shellcode(COMMANDS, shell=shell)
    context.output.show({"shell": shell, "code": code}, code)
    return conventions.SUCCESS


def is_completion_request() -> bool:
    """Return True if a shell requests completions, instead of a person an answer."""
    return "_ARGCOMPLETE" in os.environ


def run_argcomplete(tree: Parser) -> None:
    """Answer the shell and end the process; without argcomplete nothing happens."""
    try:
        import argcomplete  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError:
        return
    argcomplete.autocomplete(tree, always_complete_options="long")


def add_completers(parser: Parser, name: str = "") -> Parser:
    """Register the completers of each value in argcomplete: the row of the subcommand, if it has one."""
    row = TABLE.get(name)
    own = {one.name: _from_table(one) for one in row.arguments if _has_names(one)} if row else {}
    sources = _OPTION_SOURCES | own
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to look at a parser
        source = sources.get(action.dest)
        if source is not None:
            action.completer = source  # type: ignore[attr-defined]  # argcomplete's hook
    return parser


def _from_option(option: Option) -> Callable[..., Iterable[str]]:
    def complete(prefix: str = "", parsed_args: Namespace | None = None, **_: Any) -> Iterable[str]:
        engine = getattr(parsed_args, "engine", None) or [str(ROWS["engine"].default)]
        return complete_option_value(option, prefix, engine[-1])

    return complete


def _has_names(argument: Argument) -> bool:
    """Return True for what we complete; a shell completes files by itself."""
    return bool(argument.choices) or argument.completion not in ("", "file")


def _from_table(argument: Argument) -> Callable[..., Iterable[str]]:
    if argument.completion == "subcommand":
        return lambda **_: [row.name for row in rows_on("terminal")]
    return lambda prefix="", **_: complete_argument(argument, prefix)


_OPTION_SOURCES = {option.name: _from_option(option) for option in OPTIONS if has_values(option)}

PRINT_COMPLETION = TerminalSubcommand(COMPLETION, _run)
