"""Submit a grid of hyperparameters in a terminal: one array, the end and the outputs of each task, one exit code."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.failures.exceptions import array_still_running_message
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.handles.job_array import JobArray, format_task_end
from jupyter_smx.kernel.text.output_places import output_places
from jupyter_smx.model.status import Status
from jupyter_smx.model.text import format_count

if TYPE_CHECKING:
    from jupyter_smx.cli.subcommand import CliContext
    from jupyter_smx.kernel.request.grid import Grid
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.spec.job_spec import JobSpec


def submit_array(spec: JobSpec, grid: Grid, context: CliContext, *, detach: bool) -> int:
    """Submit a task for each point and wait for all of them; return the exit code."""
    made = context.client.submit_array(
        os.urandom(16).hex(), spec, grid.tasks, title=grid.title, max_concurrent=grid.max_concurrent
    )
    if detach:
        context.output.show(made, made.name)
        return conventions.SUCCESS
    array = JobArray(made, context.client, lambda record: _job_handle(record, context), _ignore)
    context.output.info(f"{made.name}: {format_count(made.size, 'task')}, {made.title}.")
    code = conventions.SUCCESS
    try:
        for task in array.ends():
            context.output.log(f"{format_task_end(task, array)}\n")
            is_first_failure = code == conventions.SUCCESS and task.status is not Status.COMPLETED
            if context.output.json and not is_first_failure:
                continue  # the document at the end has no more of a task than its line
            record = retry_while_unavailable(partial(context.client.job, task.id))
            if is_first_failure:
                code = conventions.job_exit_code(record)
            if not context.output.json:
                for line in output_places(record):
                    context.output.info(f"  {line}")
    except KeyboardInterrupt:
        context.output.info(array_still_running_message(made.name))
        code = conventions.INTERRUPTED
    if context.output.json:
        context.output.show(context.client.array(made.id), "")
    return code


def _ignore(_: JobArray) -> None:
    """Watch nothing: a terminal asks by itself."""


def _job_handle(record: Record, context: CliContext) -> Job:
    return Job(record, context.client, lambda _job: None)
