"""Answer requests about jobs: read the request, ask the facade."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.controller.api.answer import Answer, job_answer, json_answer
from jupyter_smx.controller.api.log_actions import check_host
from jupyter_smx.model import http_routes as routes
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import Status
from jupyter_smx.rerun_spec import make_rerun_spec

if TYPE_CHECKING:
    from jupyter_smx.controller.api.base import Actions, ApiHandler


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs``."""

    id: str
    spec: JobSpec


class RerunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs/{ref}/rerun``: the id of the new job, and when the user asked for it."""

    id: str
    submitted_at: float = 0.0


class JobUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``PATCH /v1/jobs/{ref}``: seconds."""

    keep_alive: int


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/plan``."""

    spec: JobSpec


async def submit_job(request: ApiHandler) -> Answer:
    """Admit a job; on a warm pool it is on its way to the host before the answer is."""
    sent = request.body(Submission)
    return await _submit(request, sent.id, sent.spec)


async def rerun_job(request: ApiHandler) -> Answer:
    """Submit the spec of a job under a new id."""
    sent = request.body(RerunRequest)
    job = request.facade.job(request.ref)
    source_archive = request.services.output_stager.folder(job.id).source_dir
    return await _submit(request, sent.id, make_rerun_spec(job, sent.submitted_at, source_archive))


async def _submit(request: ApiHandler, job_id: str, spec: JobSpec) -> Answer:
    facade = request.facade
    image = await facade.validator.cached_image(spec)
    job, is_new = facade.submit(job_id, spec, image, await facade.validator.resolve_interpreter(spec))
    return job_answer(facade, job, None if is_new else HTTPStatus.OK)


async def plan_job(request: ApiHandler) -> Answer:
    """Return where a job would run and why, and the files that would be sent there."""
    spec = request.body(PlanRequest).spec
    image = await request.facade.validator.peek_image(spec)
    interpreter = await request.facade.validator.resolve_interpreter(spec)
    plan = request.facade.plan(spec, image, interpreter)
    return json_answer({**plan, "sent": await request.facade.planned_files(spec)})


def list_jobs(request: ApiHandler) -> Answer:
    """Return one page of jobs, newest first."""
    limit = request.query(routes.LIMIT_JOBS)
    status = _status(request.query(routes.STATUS))
    if not request.query(routes.WITH_TASKS):
        # The client lists arrays in another request; a page of jobs could be full of one array's tasks.
        return json_answer({"jobs": request.facade.arrays.single_jobs(limit)})
    return json_answer({"jobs": request.facade.jobs(limit, request.query(routes.BEFORE_JOB), status)})


async def get_job(request: ApiHandler) -> Answer:
    """Return the record, or wait until the first line or the end of the job."""
    facade = request.facade
    wait = request.query(routes.WAIT)
    until = request.query(routes.UNTIL)
    if until not in ("first_line", "final"):
        raise ValidationError(
            f"until: {until!r} is not a step to wait for.", field="until", value=until, cure="Use first_line or final."
        )
    if not wait:
        return job_answer(facade, facade.job(request.ref))
    return job_answer(facade, await request.wait_while_connected(facade.wait_job(request.ref, until, wait)))


async def delete_job(request: ApiHandler) -> Answer:
    """Delete a finished job and its files."""
    job = request.facade.delete(request.ref)
    await asyncio.to_thread(request.services.output_stager.folder(job.id).delete)
    return Answer()


def stop_job(request: ApiHandler) -> Answer:
    """Request the stop of a job."""
    return job_answer(request.facade, request.facade.stop(request.ref, abandon=request.query(routes.ABANDON)))


def interrupt_job(request: ApiHandler) -> Answer:
    """Take the hosts of a spot job away."""
    return job_answer(request.facade, request.facade.interrupt(request.ref))


async def update_job(request: ApiHandler) -> Answer:
    """Set the keep-alive of a job, or of the pool that it retains."""
    job = await request.facade.set_keep_alive(request.ref, request.body(JobUpdate).keep_alive)
    return job_answer(request.facade, job)


async def get_job_shell(request: ApiHandler) -> Answer:
    """Return the command that opens a shell on a host of a job."""
    shells = request.facade.shell_commands
    return json_answer(await shells.command_for_job(request.ref, request.query(routes.HOST)))


async def get_metrics(request: ApiHandler) -> Answer:
    """Return the progress of a job and the points of its metrics."""
    job = request.facade.job(request.ref)
    attempt, since = request.attempt(job), request.query(routes.SINCE)
    return json_answer(await request.wait_while_connected(request.services.metrics(job, attempt, since)))


async def get_usage(request: ApiHandler) -> Answer:
    """Return the resource usage of a job on its hosts, or on one of them."""
    job = request.facade.job(request.ref)
    host, since = request.query(routes.USAGE_HOST), request.query(routes.SINCE)
    selected = check_host(job, host) if host else "", request.attempt(job), since
    return json_answer(await request.wait_while_connected(request.services.usage(job, *selected)))


async def get_advice(request: ApiHandler) -> Answer:
    """Return advice on how a job could run better."""
    job = request.facade.job(request.ref)
    usage = await request.wait_while_connected(request.services.usage(job, "", request.attempt(job), 0.0))
    return json_answer(request.facade.advice(job, usage))


def compare_jobs(request: ApiHandler) -> Answer:
    """Compare a job with another one, or with the run of its name before it."""
    return json_answer(request.facade.compare(request.ref, request.query(routes.FROM_JOB)))


def _status(word: str) -> Status | None:
    if not word:
        return None
    try:
        return Status(word)
    except ValueError:
        words = [status.value for status in Status]
        raise ValidationError(
            f"status: {word!r} is not a status.",
            field="status",
            value=word,
            rule=f"It is one of {', '.join(words)}.",
            cure=suggest_names(word, words),
        ) from None


ACTIONS: Actions = {
    "submit_job": submit_job,
    "list_jobs": list_jobs,
    "plan_job": plan_job,
    "get_job": get_job,
    "delete_job": delete_job,
    "stop_job": stop_job,
    "interrupt_job": interrupt_job,
    "update_job": update_job,
    "rerun_job": rerun_job,
    "get_job_shell": get_job_shell,
    "get_metrics": get_metrics,
    "get_usage": get_usage,
    "get_advice": get_advice,
    "compare_jobs": compare_jobs,
}
