"""``jobs``, ``stop``, ``interrupt``, ``why``, ``cost`` and ``advice``: what the records of jobs say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.cli.subcommand import CliContext, Subcommand, document
from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.client.client import JobListing
from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.kernel.text.pages import advice_page, jobs_page
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.spec.array import ArraySummary, format_counts
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.options.subcommand_parser import Parser
    from jupyter_smx.model.records.job import Job, JobSummary

STATUSES = tuple(status.value for status in Status)
_MOST = 1_000  # the controller answers no more at once


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("--status", metavar="STATUS", help=f"only those that are {', '.join(STATUSES)}")
    parser.add_argument("--limit", metavar="N", default="20", help="how many at most, the newest first; default 20")


def _list(found: Namespace, context: CliContext) -> int:
    status = match_choice(found.status, STATUSES, "--status") if found.status is not None else ""
    limit = parse_number(found.limit, "--limit", "of jobs", 1, _MOST)
    # Tasks stand in the row of their array, unless somebody looks for those that are somewhere.
    jobs = context.client.jobs(limit, status, tasks=bool(status))
    many = () if status else context.client.arrays(limit)
    rows: list[JobSummary | ArraySummary] = sorted((*jobs, *many), key=lambda one: -one.created_at)
    newest = {one.id for one in rows[:limit]}
    jobs = tuple(one for one in jobs if one.id in newest)
    many = tuple(one for one in many if one.id in newest)
    text = f"No job is {status}." if status and not jobs else jobs_page(jobs, time.time(), many)[0]
    context.output.show(JobListing(jobs=jobs, arrays=many), text)
    return conventions.SUCCESS


def _stop_arguments(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="id, name, or the beginning of one")


def _stop(found: Namespace, context: CliContext) -> int:
    stopped = job_refs.stop_job_or_array(context.client, found.job)
    if isinstance(stopped, ArraySummary):
        context.output.show(stopped, f"{stopped.name}: {format_counts(stopped)}.")
    else:
        context.output.show(document(stopped), f"{stopped.name}: {stopped.status().value}.")
    return conventions.SUCCESS


def _interrupt(found: Namespace, context: CliContext) -> int:
    job = context.client.interrupt(find_job(found.job, context.client).id)
    context.output.show(document(job), f"{job.name}: {job.state.value}.")
    return conventions.SUCCESS


def add_job_argument(parser: Parser) -> None:
    """Take the word for a job, or none for the newest."""
    parser.add_argument("job", metavar="JOB", nargs="?", default="", help="id, name, or the beginning of one")


def find_job(ref: str, client: Client) -> Job:
    """Read the job that a word means; none means the newest.

    :raises ResourceNotFoundError: there is none.
    :raises ValidationError: it means a whole array.
    """
    return job_refs.resolve_job(client, ref or newest_job_id(client))


def newest_job_id(client: Client) -> str:
    """Give the id of the newest job.

    :raises ResourceNotFoundError: there is none yet.
    """
    found = client.jobs(limit=1)
    if not found:
        raise ResourceNotFoundError(
            "There is no job yet.",
            field="job",
            rule="Without a name it is about the newest one.",
            cure="`jupyter smx run script.py` makes one.",
        )
    return found[0].id


def _why(found: Namespace, context: CliContext) -> int:
    job = find_job(found.job, context.client)
    context.output.show(job.why, format_start_reason(job))
    return conventions.SUCCESS


def _cost(found: Namespace, context: CliContext) -> int:
    priced = context.client.job_bill(find_job(found.job, context.client).id)
    context.output.show(priced, cost_page(priced.name, priced.bill)[0])
    return conventions.SUCCESS


def _advice(found: Namespace, context: CliContext) -> int:
    advice = context.client.advice(find_job(found.job, context.client).id)
    context.output.show(advice, advice_page(advice)[0])
    return conventions.SUCCESS


JOBS = Subcommand("jobs", "[--status STATUS] [--limit N]", "the newest jobs", _list_arguments, _list)
STOP = Subcommand("stop", "JOB", "stop a job", _stop_arguments, _stop)
INTERRUPT = Subcommand("interrupt", "JOB", "take the hosts of a spot job away", _stop_arguments, _interrupt)
WHY = Subcommand("why", "[JOB]", "why its start was warm or cold", add_job_argument, _why)
COST = Subcommand("cost", "[JOB]", "what it costs, and what one of its steps costs", add_job_argument, _cost)
ADVICE = Subcommand(
    "advice", "[JOB]", "how it could run better, as far as what it used tells", add_job_argument, _advice
)
