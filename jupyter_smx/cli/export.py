"""``export``: a job as a folder that lives without us."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.cli import exits
from jupyter_smx.cli.subcommand import Desk, Subcommand

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.parser import Parser


def _arguments(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="id, name, or the beginning of one")
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default="", help="where to, new or empty; default the job's name, here"
    )


def _run(found: Namespace, desk: Desk) -> int:
    from jupyter_smx.kernel.export import export  # noqa: PLC0415 - archives, which nobody else needs

    job = desk.client.job(found.job)
    made = export(job, Path(found.folder or job.name))
    desk.output.show(made, f"{job.name} is in {made.folder}: {', '.join(made.files)}")
    return exits.DONE


EXPORT = Subcommand(
    "export", "JOB [FOLDER]", "a job as a folder: its code, packages, inputs and SageMaker call", _arguments, _run
)
