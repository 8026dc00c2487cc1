"""A subcommand: what it takes, what it does, and what it works with."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from jupyter_smx.cli.output import Console
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.options.subcommand_parser import Parser
from jupyter_smx.model import redaction

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job


class CliContext(Struct, frozen=True):
    """What a subcommand works with: the controller and where the answer goes."""

    client: Client
    output: Console


class Subcommand(Struct, frozen=True):
    """One row of the table: its name, its words, its sentence, its arguments, and the function that gives the code."""

    name: str
    usage: str
    help: str
    arguments: Callable[[Parser], None]
    run: Callable[[Namespace, CliContext], int]
    parents: tuple[Any, ...] = ()
    """Parsers whose options it has, too."""


def document(job: Job) -> dict[str, Any]:
    """Give the JSON of one job: its record, with the two statuses that follow from it, as the controller's API says.

    It ends in logs of other programs, so variables whose names are those of secrets have no values there, and URLs no
    passwords.
    """
    record: dict[str, Any] = redaction.redact_record(to_builtins(job))
    return record | {"status": job.status().value, "secondary_status": job.state.value}
