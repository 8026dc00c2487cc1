"""A row of the table as a terminal runs it; separate, because commands and main import it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from msgspec import Struct

from jupyter_smx.cli.output import Console
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.subcommands.declaration import Subcommand


class CliContext(Struct, frozen=True):
    """Context of a subcommand: the controller, and the destination of its output."""

    client: Client
    output: Console


class TerminalSubcommand(Struct, frozen=True):
    """One subcommand of a terminal."""

    row: Subcommand
    run: Callable[[Namespace, CliContext], int]
    parents: tuple[ArgumentParser, ...] = ()
    """Parsers whose options it has, too."""
