"""``run`` and ``plan``: submit a script as a job, and follow it to its end."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from jupyter_smx.cli import conventions
from jupyter_smx.cli.commands import arrays
from jupyter_smx.cli.conventions import PROG
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.cli.wait_reason import wait_reporter
from jupyter_smx.kernel.api.session import with_source_dir
from jupyter_smx.kernel.client.array_rerun import array_rerun
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.client.client import ArrayDetail
from jupyter_smx.kernel.client.dependencies import dependency_ids
from jupyter_smx.kernel.failures.exceptions import failure_of, still_running_message
from jupyter_smx.kernel.handles.cost import format_job_savings
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.options import line_parser
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.request import payload
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.kernel.request.cell import CellSyntaxError
from jupyter_smx.kernel.request.grid import Grid, expand_sweep
from jupyter_smx.kernel.request.origin import RevisionReader
from jupyter_smx.kernel.request.request import SubmissionContext, current_folder
from jupyter_smx.kernel.request.script import absolute_folder, entry_point_of, read_script
from jupyter_smx.kernel.subcommands.job_subcommands import document
from jupyter_smx.kernel.subcommands.surface_subcommands import KINDS, PLAN, RUN
from jupyter_smx.kernel.text.output_places import output_places
from jupyter_smx.kernel.text.pages import plan_page
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.name import base_name
from jupyter_smx.model.spec.job_spec import is_entry_point
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from jupyter_smx.kernel.options.line_parser import LineOptions
    from jupyter_smx.kernel.request.code_files import CodeFiles
    from jupyter_smx.kernel.request.request import JobRequest
    from jupyter_smx.model.options.option import Kind
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

_ENTRY_POINT = "--entry-point"
_WAIT_SECONDS = 20.0
"""Seconds that one request waits for the verdict."""


def _run(found: Namespace, context: CliContext) -> int:
    options, named = line_parser.collect(vars(found)), found.script
    if named and not options.text("entry_point") and (entry_point := _entry_point(named, options)):
        options, found.script = options.replaced(entry_point=entry_point), ""
    _check(options, detach=found.detach)
    has_program = options.text("command") or options.text("image")
    if found.script or options.text("entry_point") or not has_program:
        _check_script(found.script, options.text("entry_point"))
    try:
        return _submit_request(found, options, context)
    except ValidationError as error:
        raise _reword_error(error, named) if named else error from None


def _submit_request(found: Namespace, options: LineOptions, context: CliContext) -> int:
    kind = cast("Kind", match_choice(found.kind, KINDS, "--kind"))
    line_parser.check_kind(kind, options)
    asked, spec, grid = _spec(found.script, kind, options, context)
    if options.flag("plan"):
        return _show_plan(spec, asked.code_files(), context)
    packed = with_source_dir(spec, asked.code_files())
    if grid is not None:
        return arrays.submit_array(packed, grid, context, detach=found.detach)
    return _submit(lambda job_id: context.client.submit(job_id, packed), context, detach=found.detach)


def _submit(send: Callable[[str], Job], context: CliContext, *, detach: bool) -> int:
    try:
        job = send(os.urandom(16).hex())
    except KeyboardInterrupt:
        context.output.info(f"Interrupted during submission: `{PROG} jobs` shows whether the job was accepted.")
        return conventions.INTERRUPTED
    if detach:
        context.output.show(document(job), job.name)
        return conventions.SUCCESS
    return _follow_job(job, context)


def _plan(found: Namespace, context: CliContext) -> int:
    found.plan = [True]
    return _run(found, context)


def _show_plan(spec: JobSpec, code: CodeFiles, context: CliContext) -> int:
    """Show the plan; a folder is packed only where it would be sent, and then its size is known."""
    sees_files = context.client.engine_info(spec.engine).same_paths
    plan = context.client.plan(spec if sees_files else with_source_dir(spec, code))
    context.output.show(plan, plan_page(plan)[0])
    return conventions.SUCCESS


def _check(options: LineOptions, *, detach: bool) -> None:
    """Refuse what only a notebook has."""
    send, handle = options.words("send"), options.text("handle")
    if send or handle:
        option = "--send" if send else "--as"
        raise ValidationError(
            f"{option} needs the variables of a notebook.",
            field=option.removeprefix("--"),
            value=", ".join(send) if send else handle,
            rule="A terminal has no variables.",
            cure="Pass files with --input and values with --hp." if send else "Leave it out.",
        )
    if options.flag("wait") and detach:
        raise ValidationError(
            "--wait cannot be combined with --detach.",
            field="wait",
            value="--detach",
            rule="--wait waits until the job ends; --detach returns at once.",
            cure="Remove one of the two.",
        )


def _entry_point(script: str, options: LineOptions) -> str:
    """Return the entry point that a script is, "" if its text is read and run as a cell is.

    A Python file keeps its name in the job, as on SageMaker; with a source folder it gets another one.

    :raises ValidationError: it is no script that a job can run.
    """
    if options.text("command"):
        return script
    folder = current_folder()
    source_dir = absolute_folder(options.text("source_dir"), folder)
    if found := entry_point_of(script, source_dir, folder, "SCRIPT"):
        return found
    # What is no file, or has a name that SageMaker would not take, is read and run as a cell is.
    is_alone = script.endswith(".py") and not source_dir and is_entry_point(Path(script).name)
    return script if is_alone and Path(script).is_file() else ""


def _reword_error(error: ValidationError, script: str) -> ValidationError:
    """Reword an error of an entry point that was given as SCRIPT; return other errors unchanged."""
    if error.field not in ("entry_point", "source_dir"):
        return error
    cure = error.cure.replace(f"{_ENTRY_POINT} ", f"{PROG} run " if error.field == "source_dir" else "")
    if error.field == "source_dir":
        return ValidationError(error.message, field=error.field, value=error.value, rule=error.rule, cure=cure)
    said = error.message.replace(f"{_ENTRY_POINT}: {error.value}", f"SCRIPT: {script}", 1)
    return ValidationError(said, field="source", value=script, rule=error.rule, cure=cure)


def _check_script(script: str, entry_point: str) -> None:
    """Refuse two scripts, and none."""
    if bool(script) == bool(entry_point):
        raise ValidationError(
            f"SCRIPT: {script} cannot be combined with --entry-point {entry_point}."
            if script
            else "SCRIPT is missing.",
            field="source",
            value=script,
            rule="A job runs one script: SCRIPT, or --entry-point with --source-dir.",
            cure="Remove one of the two."
            if script
            else f"For example {PROG} run train.py. With --image alone, the image's own program runs.",
        )


def _spec(path: str, kind: Kind, options: LineOptions, context: CliContext) -> tuple[JobRequest, JobSpec, Grid | None]:
    submitted_at = time.time()
    code = read_script(path, "SCRIPT") if path else ""
    path = path or options.text("entry_point") or options.text("command").partition(" ")[0]
    path = path or options.text("image").rpartition("/")[2].partition("@")[0].partition(":")[0]
    folder = current_folder()
    here = SubmissionContext(
        python=sys.executable,
        python_version=payload.python_version(),
        folder=folder,
        revision=RevisionReader().read(folder),
        interpreters_of=context.client.interpreters_of,
        image_engine=context.client.image_engine,
    )
    named = options.replaced(name=options.text("name") or base_name(Path(path).stem, kind))
    found = request_from_options(kind, named, {}, here.folder)
    most = options.text("max_concurrent") or None
    fixed, grid = expand_sweep(found.hyperparameters, most, sweep=options.flag("sweep"))
    found = replace(found, hyperparameters=fixed, after=dependency_ids(found.after, {}, context.client))
    try:
        return found, found.build_spec(code, 0, here, submitted_at), grid
    except CellSyntaxError as error:
        message = error.message.replace("The cell is", f"{path} is", 1)
        raise CellSyntaxError(message, field=error.field, cure=error.cure) from None


def _follow_job(job: Job, context: CliContext) -> int:
    """Show the log and wait for the outcome; the job continues if this command ends."""
    output = context.output
    output.info(job.name)
    try:
        reader.follow(context.client, job, output.log, quiet=wait_reporter(context, job.id))
        while not is_final(job.state):
            job = retry_while_unavailable(partial(context.client.wait, job.id, _WAIT_SECONDS))
    except KeyboardInterrupt:
        output.info(still_running_message(job.name))
        if output.json:
            output.show(document(job), "")
        return conventions.INTERRUPTED
    except (BrokenPipeError, SmxError):
        output.info(still_running_message(job.name))
        raise
    if output.json:
        output.show(document(job), "")
    else:
        for line in output_places(job):
            output.info(line)
        if saved := format_job_savings(context.client, job):
            output.info(saved.rstrip())
        output.info(str(failure_of(job) or f"{job.name}: {job.status().value}."))
    return conventions.job_exit_code(job)


def rerun_job_or_array(found: Job | ArrayDetail, submitted_at: float, context: CliContext, *, detach: bool) -> int:
    """Submit a job or all tasks of an array again and follow them to their end, unless ``detach``.

    Returns the exit code.
    """
    if isinstance(found, ArrayDetail):
        again = array_rerun(context.client, found, submitted_at)
        grid = Grid(fixed={}, tasks=again.tasks, title=again.title, max_concurrent=again.max_concurrent)
        return arrays.submit_array(again.spec, grid, context, detach=detach)
    return _submit(lambda job_id: context.client.rerun(found.id, job_id, submitted_at), context, detach=detach)


_OPTIONS = (line_parser.parser("train"),)
RUN_SCRIPT = TerminalSubcommand(RUN, _run, _OPTIONS)
SHOW_PLAN = TerminalSubcommand(PLAN, _plan, _OPTIONS)
