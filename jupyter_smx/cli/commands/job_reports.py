"""``describe``, ``events``, ``diff``, ``provenance`` and ``export``: a job as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.cli.commands.jobs import add_job_argument, find_job, newest_job_id
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.display.diff import diff_by_ref, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.failures.exceptions import still_running_message
from jupyter_smx.kernel.magics.subcommand_options import EVENTS_HELP, EVENTS_USAGE, add_event_options

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.subcommand_parser import Parser


def _describe(found: Namespace, context: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.describe import description, format_description, local_context  # noqa: PLC0415 - which few need

    job = find_job(found.job, context.client)
    said = description(job, local_context(), context.client.job_bill(job.id).bill)
    context.output.show(said, format_description(said))
    return conventions.SUCCESS


def _event_arguments(parser: Parser) -> None:
    add_job_argument(parser)
    add_event_options(parser)


def _events(found: Namespace, context: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - as above
    from jupyter_smx.kernel.sagemaker.events import events_of, follow_events  # noqa: PLC0415 - as above

    job = find_job(found.job, context.client)
    try:
        for event in (
            follow_events(context.client, job, local_context()) if found.follow else events_of(job, local_context())
        ):
            context.output.write_line(event)
    except KeyboardInterrupt:
        context.output.info(still_running_message(job.name))
        return conventions.INTERRUPTED
    return conventions.SUCCESS


DESCRIBE = Subcommand(
    "describe", "[JOB]", "the job as DescribeTrainingJob or DescribeProcessingJob would", add_job_argument, _describe
)
EVENTS = Subcommand("events", EVENTS_USAGE, EVENTS_HELP, _event_arguments, _events)


def _diff_arguments(parser: Parser) -> None:
    add_job_argument(parser)
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", default="", help="the later one; without it JOB and the run before it"
    )


def _diff(found: Namespace, context: CliContext) -> int:
    diff = diff_by_ref(context.client, found.job or newest_job_id(context.client), found.other)
    context.output.show(diff, diff_page(diff)[0])
    return conventions.SUCCESS


def _provenance(found: Namespace, context: CliContext) -> int:
    job = find_job(found.job, context.client)
    context.output.show(job.provenance, provenance_page(job)[0])
    return conventions.SUCCESS


DIFF = Subcommand("diff", "[JOB] [OTHER]", "in what two jobs differ", _diff_arguments, _diff)
PROVENANCE = Subcommand("provenance", "[JOB]", "what a job ran with", add_job_argument, _provenance)


def _export_arguments(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="id, name, or the beginning of one; an array, too")
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default="", help="where to, new or empty; default its name, here"
    )


def _export(found: Namespace, context: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.export_array import export_by_ref  # noqa: PLC0415 - archives, which nobody else needs

    name, made = export_by_ref(context.client, found.job, found.folder)
    context.output.show(made, f"{name} is in {made.folder}: {', '.join(made.files)}")
    return conventions.SUCCESS


EXPORT = Subcommand(
    "export",
    "JOB [FOLDER]",
    "a job or an array as a folder: code, packages, inputs and SageMaker call",
    _export_arguments,
    _export,
)
