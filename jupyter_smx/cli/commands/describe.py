"""``describe`` and ``events``: a job in SageMaker's words, for programs that were written for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import find, one_or_newest
from jupyter_smx.cli.subcommand import Desk, Subcommand
from jupyter_smx.kernel.failures.exceptions import goes_on
from jupyter_smx.kernel.options import events

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.options.parser import Parser


def _describe(found: Namespace, desk: Desk) -> int:
    from jupyter_smx.kernel.sagemaker.describe import as_text, description, here  # noqa: PLC0415 - which few need

    job = find(found.job, desk.client)
    said = description(job, here(), desk.client.priced(job.id).bill)
    desk.output.show(said, as_text(said))
    return exit_codes.DONE


def _event_arguments(parser: Parser) -> None:
    one_or_newest(parser)
    events.add_options(parser)


def _events(found: Namespace, desk: Desk) -> int:
    from jupyter_smx.kernel.sagemaker.describe import here  # noqa: PLC0415 - as above
    from jupyter_smx.kernel.sagemaker.events import events_of, follow  # noqa: PLC0415 - as above

    job = find(found.job, desk.client)
    try:
        for event in follow(desk.client, job, here()) if found.follow else events_of(job, here()):
            desk.output.line(event)
    except KeyboardInterrupt:
        desk.output.say(goes_on(job.name))
        return exit_codes.INTERRUPTED
    return exit_codes.DONE


DESCRIBE = Subcommand(
    "describe", "[JOB]", "the job as DescribeTrainingJob or DescribeProcessingJob would", one_or_newest, _describe
)
EVENTS = Subcommand("events", events.USAGE, events.HELP, _event_arguments, _events)
