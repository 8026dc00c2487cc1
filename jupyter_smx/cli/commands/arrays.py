"""A grid of hyperparameters from the command line: one array, a line when a task ends, one exit code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.cli import exit_codes
from jupyter_smx.kernel.failures.exceptions import array_goes_on
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.handles.job_array import JobArray, end_words
from jupyter_smx.model.status import Status
from jupyter_smx.model.text import counted

if TYPE_CHECKING:
    from jupyter_smx.cli.subcommand import Desk
    from jupyter_smx.kernel.request.grid import Grid
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.spec.job_spec import JobSpec


def hand_in(spec: JobSpec, grid: Grid, desk: Desk, *, detach: bool) -> int:
    """Hand in a task for each point and wait for all of them; gives the exit code."""
    made = desk.client.submit_array(
        os.urandom(16).hex(), spec, grid.tasks, title=grid.title, max_concurrent=grid.max_concurrent
    )
    if detach:
        desk.output.show(made, made.name)
        return exit_codes.DONE
    array = JobArray(made, desk.client, lambda record: _attached(record, desk), _nobody)
    desk.output.say(f"{made.name}: {counted(made.size, 'task')}, {made.title}.")
    code = exit_codes.DONE
    try:
        for task in array.ends():
            desk.output.log(f"{end_words(task, array)}\n")
            if code == exit_codes.DONE and task.status is not Status.COMPLETED:
                code = exit_codes.of_job(desk.client.job(task.id))
    except KeyboardInterrupt:
        desk.output.say(array_goes_on(made.name))
        code = exit_codes.INTERRUPTED
    if desk.output.json:
        desk.output.show(desk.client.array(made.id), "")
    return code


def _nobody(_: JobArray) -> None:
    """Watch nothing: a terminal asks by itself."""


def _attached(record: Record, desk: Desk) -> Job:
    return Job(record, desk.client, lambda _job: None, {})
