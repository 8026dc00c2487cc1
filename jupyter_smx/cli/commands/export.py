"""``export``: a job, or an array, as a folder that lives without us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.subcommand import CliContext, Subcommand

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _arguments(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="id, name, or the beginning of one; an array, too")
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default="", help="where to, new or empty; default its name, here"
    )


def _run(found: Namespace, desk: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.export_array import export_by_ref  # noqa: PLC0415 - archives, which nobody else needs

    name, made = export_by_ref(desk.client, found.job, found.folder)
    desk.output.show(made, f"{name} is in {made.folder}: {', '.join(made.files)}")
    return exit_codes.SUCCESS


EXPORT = Subcommand(
    "export",
    "JOB [FOLDER]",
    "a job or an array as a folder: code, packages, inputs and SageMaker call",
    _arguments,
    _run,
)
