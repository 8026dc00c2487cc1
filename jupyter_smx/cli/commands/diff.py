"""``diff`` and ``provenance``: in what two runs differ, and what one ran with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import find, newest, one_or_newest
from jupyter_smx.cli.subcommand import Desk, Subcommand
from jupyter_smx.kernel.display.diff import diff_of, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _diff_arguments(parser: Parser) -> None:
    one_or_newest(parser)
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", default="", help="the later one; without it JOB and the run before it"
    )


def _diff(found: Namespace, desk: Desk) -> int:
    diff = diff_of(desk.client, found.job or newest(desk.client), found.other)
    desk.output.show(diff, diff_page(diff)[0])
    return exit_codes.DONE


def _provenance(found: Namespace, desk: Desk) -> int:
    job = find(found.job, desk.client)
    desk.output.show(job.provenance, provenance_page(job)[0])
    return exit_codes.DONE


DIFF = Subcommand("diff", "[JOB] [OTHER]", "in what two jobs differ", _diff_arguments, _diff)
PROVENANCE = Subcommand("provenance", "[JOB]", "what a job ran with", one_or_newest, _provenance)
