"""All subcommands that a notebook and a terminal share, their parser, and their manual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.options.subcommand_parser import Parser
from jupyter_smx.kernel.subcommands import host_subcommands as hosts
from jupyter_smx.kernel.subcommands import job_subcommands as jobs
from jupyter_smx.kernel.subcommands import log_subcommands as logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.kernel.subcommands.declaration import Subcommand

ROWS: tuple[Subcommand, ...] = (
    jobs.JOBS,
    logs.LOGS,
    jobs.STOP,
    jobs.INTERRUPT,
    jobs.RERUN,
    jobs.WHY,
    jobs.COST,
    jobs.ADVICE,
    jobs.DIFF,
    jobs.PROVENANCE,
    jobs.DESCRIBE,
    logs.EVENTS,
    jobs.EXPORT,
    hosts.POOLS,
    hosts.EXTEND,
    hosts.RELEASE,
    hosts.TYPES,
    hosts.DOCTOR,
)
TABLE = {row.name: row for row in ROWS}
NOTEBOOK_ONLY = ("config",)
"""It sets the defaults of a kernel, and a terminal has none."""
TERMINAL_ONLY = ("run", "plan", "shell", "completion")
"""A notebook has ``%%train`` and ``--plan``, a terminal of JupyterLab's, and Tab."""
HELP = ("-h", "--help")


def parser_of(row: Subcommand, prog: str, *, terminal: bool) -> Parser:
    """Make the parser of the words after a subcommand."""
    name = f"{prog} {row.name}"
    parser = Parser(
        prog=name, usage=f"{name} {row.usage(terminal=terminal)}".rstrip(), description=f"{_sentence(row.help)}"
    )
    for argument in row.arguments:
        if not argument.spellings:
            required = argument.is_required(terminal=terminal)
            how = {} if required else {"nargs": "?", "default": argument.default}
            parser.add_argument(argument.name, metavar=argument.metavar, help=argument.help, **how)  # type: ignore[arg-type]  # of a dict
        elif argument.metavar:
            parser.add_argument(
                *argument.spellings,
                dest=argument.name,
                metavar=argument.metavar,
                default=argument.default,
                help=argument.help,
            )
        else:
            parser.add_argument(*argument.spellings, dest=argument.name, action="store_true", help=argument.help)
    return parser


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def format_rows(prog: str, rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Write lines of a manual: name, usage and help of each subcommand, in columns."""
    lines = [(f"{prog} {name} {usage}".rstrip(), text) for name, usage, text in rows]
    width = max(len(left) for left, _ in lines)
    return [f"  {left.ljust(width)}  {text}" for left, text in lines]
