"""A grid of hyperparameters from the command line: one array, a line when a task ends, one exit code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.kernel.failures.exceptions import array_still_running_message
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.handles.job_array import JobArray, format_task_end
from jupyter_smx.model.status import Status
from jupyter_smx.model.text import format_count

if TYPE_CHECKING:
    from jupyter_smx.cli.subcommand import CliContext
    from jupyter_smx.kernel.request.grid import Grid
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.spec.job_spec import JobSpec


def submit_array(spec: JobSpec, grid: Grid, desk: CliContext, *, detach: bool) -> int:
    """Hand in a task for each point and wait for all of them; gives the exit code."""
    made = desk.client.submit_array(
        os.urandom(16).hex(), spec, grid.tasks, title=grid.title, max_concurrent=grid.max_concurrent
    )
    if detach:
        desk.output.show(made, made.name)
        return exit_codes.SUCCESS
    array = JobArray(made, desk.client, lambda record: _job_handle(record, desk), _ignore)
    desk.output.info(f"{made.name}: {format_count(made.size, 'task')}, {made.title}.")
    code = exit_codes.SUCCESS
    try:
        for task in array.ends():
            desk.output.log(f"{format_task_end(task, array)}\n")
            if code == exit_codes.SUCCESS and task.status is not Status.COMPLETED:
                code = exit_codes.job_exit_code(desk.client.job(task.id))
    except KeyboardInterrupt:
        desk.output.info(array_still_running_message(made.name))
        code = exit_codes.INTERRUPTED
    if desk.output.json:
        desk.output.show(desk.client.array(made.id), "")
    return code


def _ignore(_: JobArray) -> None:
    """Watch nothing: a terminal asks by itself."""


def _job_handle(record: Record, desk: CliContext) -> Job:
    return Job(record, desk.client, lambda _job: None, {})
