"""A subcommand that only a terminal has, and its context; separate, because commands and main import both."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from jupyter_smx.cli.output import Console
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.options.subcommand_parser import Parser


class CliContext(Struct, frozen=True):
    """What a subcommand works with: the controller and where the answer goes."""

    client: Client
    output: Console


class TerminalSubcommand(Struct, frozen=True):
    """One subcommand of a terminal; ``arguments`` is None for one that a notebook shares."""

    name: str
    usage: str
    help: str
    arguments: Callable[[Parser], None] | None
    run: Callable[[Namespace, CliContext], int]
    parents: tuple[Any, ...] = ()
    """Parsers whose options it has, too."""
