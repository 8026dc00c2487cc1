"""``types``: what a host can be, what it has and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.text.instance_types import types_page

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _no_arguments(_: Parser) -> None:
    pass


def _run(_: Namespace, desk: CliContext) -> int:
    found = desk.client.instance_types()
    desk.output.show(found, types_page(found)[0])
    return exit_codes.SUCCESS


INSTANCE_TYPES = Subcommand("types", "", "what hosts can be, and what they cost", _no_arguments, _run)
