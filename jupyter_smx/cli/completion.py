"""Tab in a shell: ``completion`` prints what the shell has to load, and argcomplete asks us for the names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_smx.cli import conventions
from jupyter_smx.cli.commands.run import KINDS
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.subcommands.completion import complete_argument, query_names
from jupyter_smx.kernel.subcommands.table import ROWS, TABLE
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from jupyter_smx.kernel.options.subcommand_parser import Parser
    from jupyter_smx.kernel.subcommands.declaration import Argument

COMMANDS = ("jupyter-smx", "jupyter")
"""``jupyter`` hands what follows ``smx`` on to us."""

_SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def _arguments(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", default="bash", help=", ".join(_SHELLS))


def _run(found: Namespace, context: CliContext) -> int:
    shell = match_choice(found.shell, _SHELLS, "SHELL")
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
    of_row = {one.name: _from_table(one) for one in row.arguments if one.completion not in ("", "file")} if row else {}
    sources = _SOURCES | of_row
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to look at a parser
        source = sources.get(action.dest)
        if source is not None:
            action.completer = source  # type: ignore[attr-defined]  # argcomplete's hook
    return parser


def _instance_types(**_: Any) -> Iterable[str]:
    from jupyter_smx.model.spec.instance import catalogue  # noqa: PLC0415 - reads a file that nobody else needs here

    # A controller that runs knows of the administrator's; without one those that ship are the best guess.
    return query_names(lambda client: [row.name for row in client.instance_types().instance_types]) or sorted(
        catalogue()
    )


def _from_table(argument: Argument) -> Callable[..., Iterable[str]]:
    return lambda **_: complete_argument(argument)


_SOURCES: dict[str, Any] = {
    **{
        argument.name: _from_table(argument)
        for row in ROWS
        for argument in row.arguments
        if argument.completion not in ("", "file", "live_job")
    },
    "instance_type": _instance_types,
    "kind": lambda **_: KINDS,
    "shell": lambda **_: _SHELLS,
}

COMPLETION = TerminalSubcommand("completion", "[SHELL]", "print the shell completion script", _arguments, _run)
