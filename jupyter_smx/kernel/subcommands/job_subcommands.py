"""The subcommands about jobs: lists, stops and reports."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.client.client import JobListing
from jupyter_smx.kernel.display.diff import diff_by_ref, diff_page
from jupyter_smx.kernel.display.provenance import provenance_page
from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.subcommands.declaration import JOB, JOB_HELP, Argument, Result, Subcommand
from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.kernel.text.pages import advice_page, jobs_page, text_page
from jupyter_smx.model import redaction
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.spec.array import ArraySummary, format_counts
from jupyter_smx.model.status import Status

if TYPE_CHECKING:
    from argparse import Namespace

    from jupyter_smx.kernel.subcommands.declaration import Surface
    from jupyter_smx.model.records.job import Job, JobSummary

_ABANDON = Argument(
    name="abandon",
    help="wait for no host that cannot be reached; what still runs there ends when it is reached again",
    spellings=("--abandon",),
)
STATUSES = tuple(status.value for status in Status)
_MOST = 1_000
"""Jobs in one answer of the controller."""
_MUST_NAME_JOB = Argument(
    name="job", metavar="JOB", help="ID, name, or the beginning of one", required="terminal", completion="job"
)
_LIVE_JOB = Argument(
    name="job", metavar="JOB", help="ID, name, or the beginning of one", required="terminal", completion="live_job"
)


def find_job(word: str, surface: Surface) -> Job:
    """Find the job of a reference; without a word the surface's own job, or the newest of all.

    :raises ResourceNotFoundError: there is none.
    :raises ValidationError: the reference is a whole array.
    """
    return job_refs.resolve_job(surface.client, resolve_ref(word, surface))


def resolve_ref(word: str, surface: Surface) -> str:
    """Return a reference to a job or an array.

    :raises ResourceNotFoundError: there is no word and no job yet.
    """
    ref = surface.resolve_ref(word)
    if ref:
        return ref
    newest = surface.client.jobs(limit=1)
    if newest:
        return newest[0].id
    raise ResourceNotFoundError(
        "There is no job yet.",
        field="job",
        rule="Without a name, the command uses the newest job.",
        cure="Run one: %%train in a notebook, `jupyter smx run script.py` in a terminal.",
    )


def document(job: Job) -> dict[str, Any]:
    """Return the JSON of one job: its record, with the two statuses that follow from it, as the API has it.

    It ends in logs of other programs, so variables whose names are those of secrets have no values there, and URLs no
    passwords.
    """
    record: dict[str, Any] = redaction.redact_record(to_builtins(job))
    return record | {"status": job.status().value, "secondary_status": job.state.value}


def _jobs(found: Namespace, surface: Surface) -> Result:
    status = match_choice(found.status, STATUSES, "--status") if found.status else ""
    limit = parse_number(found.limit, "--limit", "of jobs", 1, _MOST)
    # Tasks are in the row of their array, unless the question is which ones have a status.
    jobs = surface.client.jobs(limit, status, tasks=bool(status))
    arrays = () if status else surface.client.arrays(limit)
    rows: list[JobSummary | ArraySummary] = sorted((*jobs, *arrays), key=lambda one: -one.created_at)
    newest = {one.id for one in rows[:limit]}
    jobs = tuple(one for one in jobs if one.id in newest)
    arrays = tuple(one for one in arrays if one.id in newest)
    empty = status and not jobs
    page = text_page(f"No job is {status}.") if empty else jobs_page(jobs, time.time(), arrays)
    return Result(JobListing(jobs=jobs, arrays=arrays), page)


def _stop(found: Namespace, surface: Surface) -> Result:
    result = job_refs.stop_job_or_array(surface.client, resolve_ref(found.job, surface), abandon=found.abandon)
    stopped, verb = result.record, " was over already" if result.was_over else ""
    if isinstance(stopped, ArraySummary):
        return Result(stopped, text_page(f"{stopped.name}{verb}: {format_counts(stopped)}."))
    return Result(document(stopped), text_page(f"{stopped.name}{verb}: {stopped.status().value}."))


def _interrupt(found: Namespace, surface: Surface) -> Result:
    job = surface.client.interrupt(find_job(found.job, surface).id)
    return Result(document(job), text_page(f"{job.name}: {job.state.value}."))


def _why(found: Namespace, surface: Surface) -> Result:
    job = find_job(found.job, surface)
    return Result(job.why, text_page(format_start_reason(job)))


def _cost(found: Namespace, surface: Surface) -> Result:
    priced = surface.client.job_bill(find_job(found.job, surface).id)
    return Result(priced, cost_page(priced.name, priced.bill))


def _advice(found: Namespace, surface: Surface) -> Result:
    advice = surface.client.advice(find_job(found.job, surface).id)
    return Result(advice, advice_page(advice))


def _diff(found: Namespace, surface: Surface) -> Result:
    other = resolve_ref(found.other, surface) if found.other else ""
    diff = diff_by_ref(surface.client, resolve_ref(found.job, surface), other)
    return Result(diff, diff_page(diff))


def _provenance(found: Namespace, surface: Surface) -> Result:
    job = find_job(found.job, surface)
    return Result(job.provenance, provenance_page(job))


def _describe(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.kernel.sagemaker.describe import description, format_description, local_context  # noqa: PLC0415 - which few need

    job = find_job(found.job, surface)
    described = description(job, local_context(), surface.client.job_bill(job.id).bill)
    return Result(described, text_page(format_description(described)))


def _rerun(found: Namespace, surface: Surface) -> Result | None:
    submitted_at = time.time()
    again = job_refs.resolve_job_or_array(surface.client, resolve_ref(found.job, surface))
    return surface.rerun(again, submitted_at, detach=found.detach)


def _export(found: Namespace, surface: Surface) -> Result:
    from jupyter_smx.kernel.sagemaker.export_array import export_by_ref  # noqa: PLC0415 - archives, which few need

    name, made = export_by_ref(surface.client, resolve_ref(found.job, surface), found.folder)
    return Result(made, text_page(f"{name} is in {made.folder}: {', '.join(made.files)}"))


JOBS = Subcommand(
    "jobs",
    "list the newest jobs",
    _jobs,
    (
        Argument(
            name="status",
            metavar="STATUS",
            spellings=("--status",),
            help=f"only jobs that are {', '.join(STATUSES)}",
            completion="status",
        ),
        Argument(name="limit", metavar="N", spellings=("--limit",), help="number of jobs; default 20", default="20"),
    ),
)
STOP = Subcommand("stop", "stop a job or an array", _stop, (_LIVE_JOB, _ABANDON))
INTERRUPT = Subcommand("interrupt", "simulate a spot interruption", _interrupt, (_LIVE_JOB,))
WHY = Subcommand("why", "show why a job's start was warm or cold", _why, (JOB,))
COST = Subcommand("cost", "show what a job and one of its steps cost", _cost, (JOB,))
ADVICE = Subcommand("advice", "recommend settings, from the job's resource use", _advice, (JOB,))
DIFF = Subcommand(
    "diff",
    "compare two jobs, or a job with its previous run",
    _diff,
    (
        JOB,
        Argument(
            name="other",
            metavar="OTHER",
            help="the later job; default compares with the previous run",
            completion="job",
        ),
    ),
)
PROVENANCE = Subcommand(
    "provenance", "show what a job ran with: code, packages, inputs, hosts, seeds", _provenance, (JOB,)
)
DESCRIBE = Subcommand(
    "describe", "show a job as DescribeTrainingJob or DescribeProcessingJob has it", _describe, (JOB,)
)
RERUN = Subcommand(
    "rerun",
    "run a job or an array again: same code, variables, inputs and hosts",
    _rerun,
    (_MUST_NAME_JOB, Argument(name="detach", spellings=("--detach",), help="return at once with the job's name")),
)
EXPORT = Subcommand(
    "export",
    "write a job or an array to a folder: code, packages, inputs and SageMaker call",
    _export,
    (
        Argument(name="job", metavar="JOB", help=JOB_HELP.partition(";")[0], required="always", completion="job"),
        Argument(
            name="folder",
            metavar="FOLDER",
            help="a new or empty folder; default the job's name, here",
            completion="file",
        ),
    ),
)
