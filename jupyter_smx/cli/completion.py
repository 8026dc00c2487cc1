"""Shell completion: ``completion`` prints the script that a shell loads; argcomplete requests the names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_smx.cli import conventions
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.subcommands.completion import complete_argument, query_names
from jupyter_smx.kernel.subcommands.surface_subcommands import COMPLETION, SHELLS
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from jupyter_smx.kernel.options.subcommand_parser import Parser
    from jupyter_smx.kernel.subcommands.declaration import Argument

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
    """Say whether a shell asks for names, and not a person for an answer."""
    return "_ARGCOMPLETE" in os.environ


def run_argcomplete(tree: Parser) -> None:
    """Answer the shell and end the process; without argcomplete nothing happens."""
    try:
        import argcomplete  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError:
        return
    argcomplete.autocomplete(tree, always_complete_options="long")


def add_completers(parser: Parser, name: str = "") -> Parser:
    """Tell argcomplete where the names of each value come from: the row of the subcommand, if it has one."""
    row = TABLE.get(name)
    sources = _SOURCES | {one.name: _from_table(one) for one in row.arguments if _has_names(one)} if row else _SOURCES
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to look at a parser
        source = sources.get(action.dest)
        if source is not None:
            action.completer = source  # type: ignore[attr-defined]  # argcomplete's hook
    return parser


def _instance_types(**_: Any) -> Iterable[str]:
    from jupyter_smx.model.spec.instance import catalogue  # noqa: PLC0415 - reads a file that nobody else needs here

    # A controller that runs knows of the administrator's; without one those that ship are the best guess.
    return query_names(lambda client: client.instance_types().names()) or sorted(catalogue())


def _has_names(argument: Argument) -> bool:
    """Return True for what we complete; a shell completes files by itself."""
    return bool(argument.choices) or argument.completion not in ("", "file")


def _from_table(argument: Argument) -> Callable[..., Iterable[str]]:
    if argument.completion == "subcommand":
        return lambda **_: [row.name for row in rows_on("terminal")]
    return lambda **_: complete_argument(argument)


_SOURCES: dict[str, Any] = {"instance_type": _instance_types}

PRINT_COMPLETION = TerminalSubcommand(COMPLETION, _run)
