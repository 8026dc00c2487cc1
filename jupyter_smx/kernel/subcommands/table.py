"""All subcommands of a notebook and of a terminal, their parser, and their manual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.options.subcommand_parser import Parser
from jupyter_smx.kernel.subcommands import aws_subcommands as aws
from jupyter_smx.kernel.subcommands import host_subcommands as hosts
from jupyter_smx.kernel.subcommands import job_subcommands as jobs
from jupyter_smx.kernel.subcommands import log_subcommands as logs
from jupyter_smx.kernel.subcommands import surface_subcommands as surfaces
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Sequence

    from jupyter_smx.kernel.subcommands.declaration import Subcommand, SurfaceName

ROWS: tuple[Subcommand, ...] = (
    surfaces.RUN,
    surfaces.PLAN,
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
    aws.AWS,
    surfaces.SHELL,
    surfaces.CONFIG,
    surfaces.COMPLETION,
    surfaces.HELP,
)
TABLE = {row.name: row for row in ROWS}
HELP = ("-h", "--help")


def rows_on(surface: SurfaceName) -> list[Subcommand]:
    """Return the rows that a surface has, in the order of its manual."""
    return [row for row in TABLE.values() if row.is_on(surface)]


def find_row(name: str, prog: str, surface: SurfaceName) -> Subcommand:
    """Return the row that a name means on a surface.

    :raises ValidationError: no subcommand has the name, or only the other surface has it.
    """
    row = TABLE.get(name)
    if row is None:
        names = [row.name for row in rows_on(surface)]
        raise ValidationError(
            f"{prog}: {name!r} is not a subcommand.",
            field="line",
            value=name,
            cure=suggest_names(name, names) or f"There are {', '.join(names)}.",
        )
    if not row.is_on(surface):
        raise ValidationError(
            f"{prog}: {name} works in a {row.only} only.", field="line", value=name, rule=row.reason, cure=row.cure
        )
    return row


def parser_of(row: Subcommand, prog: str, *, terminal: bool, parents: Sequence[ArgumentParser] = ()) -> Parser:
    """Make the parser of the words after a subcommand; it has the options of ``parents``, too."""
    name = f"{prog} {row.name}"
    parser = Parser(
        prog=name,
        usage=f"{name} {row.usage(terminal=terminal)}".rstrip(),
        description=_sentence(row.help),
        parents=list(parents),
    )
    for argument in row.arguments:
        text = argument.describe(terminal=terminal)
        if not argument.spellings:
            required = argument.is_required(terminal=terminal)
            how = {} if required else {"nargs": "*" if argument.many else "?", "default": argument.default}
            parser.add_argument(argument.name, metavar=argument.metavar, help=text, **how)  # type: ignore[arg-type]  # of a dict
        elif argument.metavar:
            parser.add_argument(
                *argument.spellings,
                dest=argument.name,
                metavar=argument.metavar,
                default=argument.default,
                help=text,
            )
        else:
            parser.add_argument(*argument.spellings, dest=argument.name, action="store_true", help=text)
    return parser


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def format_rows(prog: str, rows: Iterable[Subcommand], *, terminal: bool) -> list[str]:
    """Write lines of a manual: name, usage and help of each subcommand, in columns."""
    lines = [(f"{prog} {row.name} {row.usage(terminal=terminal)}".rstrip(), row.help) for row in rows]
    width = max(len(left) for left, _ in lines)
    return [f"  {left.ljust(width)}  {text}" for left, text in lines]
