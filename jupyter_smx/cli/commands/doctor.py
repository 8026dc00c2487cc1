"""``doctor``: one page about what is found and what works here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.text.pages import facts_page

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--fix", action="store_true", help="end what engines still have of clusters that nobody has a record of"
    )


def _run(arguments: Namespace, desk: CliContext) -> int:
    from jupyter_smx.kernel.display.doctor import collect_facts  # noqa: PLC0415 - reads package metadata, which nobody else needs

    facts = collect_facts(desk.client)
    if arguments.fix and isinstance(facts["controller"], dict):
        facts["ended"] = desk.client.fix() or "nothing was left of any cluster"
    desk.output.show(facts, facts_page(facts)[0])
    return exit_codes.SUCCESS if isinstance(facts["controller"], dict) else exit_codes.NO_CONTROLLER


DOCTOR = Subcommand("doctor", "[--fix]", "what is found and what works here", _arguments, _run)
