"""``diff`` and ``provenance``: in what two runs differ, and what one ran with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import add_job_argument, find_job, newest_job_id
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.display.diff import diff_by_ref, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _diff_arguments(parser: Parser) -> None:
    add_job_argument(parser)
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", default="", help="the later one; without it JOB and the run before it"
    )


def _diff(found: Namespace, desk: CliContext) -> int:
    diff = diff_by_ref(desk.client, found.job or newest_job_id(desk.client), found.other)
    desk.output.show(diff, diff_page(diff)[0])
    return exit_codes.SUCCESS


def _provenance(found: Namespace, desk: CliContext) -> int:
    job = find_job(found.job, desk.client)
    desk.output.show(job.provenance, provenance_page(job)[0])
    return exit_codes.SUCCESS


DIFF = Subcommand("diff", "[JOB] [OTHER]", "in what two jobs differ", _diff_arguments, _diff)
PROVENANCE = Subcommand("provenance", "[JOB]", "what a job ran with", add_job_argument, _provenance)
