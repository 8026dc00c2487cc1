"""``describe`` and ``events``: a job in SageMaker's words, for programs that were written for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import add_job_argument, find_job
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.kernel.failures.exceptions import still_running_message
from jupyter_smx.kernel.options import events

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _describe(found: Namespace, desk: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.describe import description, format_description, local_context  # noqa: PLC0415 - which few need

    job = find_job(found.job, desk.client)
    said = description(job, local_context(), desk.client.job_bill(job.id).bill)
    desk.output.show(said, format_description(said))
    return exit_codes.SUCCESS


def _event_arguments(parser: Parser) -> None:
    add_job_argument(parser)
    events.add_options(parser)


def _events(found: Namespace, desk: CliContext) -> int:
    from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - as above
    from jupyter_smx.kernel.sagemaker.events import events_of, follow_events  # noqa: PLC0415 - as above

    job = find_job(found.job, desk.client)
    try:
        for event in (
            follow_events(desk.client, job, local_context()) if found.follow else events_of(job, local_context())
        ):
            desk.output.write_line(event)
    except KeyboardInterrupt:
        desk.output.info(still_running_message(job.name))
        return exit_codes.INTERRUPTED
    return exit_codes.SUCCESS


DESCRIBE = Subcommand(
    "describe", "[JOB]", "the job as DescribeTrainingJob or DescribeProcessingJob would", add_job_argument, _describe
)
EVENTS = Subcommand("events", events.USAGE, events.HELP, _event_arguments, _events)
