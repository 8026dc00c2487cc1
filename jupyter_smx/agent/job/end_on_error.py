"""End the job if one of its steps raises an error; separate, because three modules of ``job`` import it."""

from __future__ import annotations

import functools
from typing import Any, Callable

from jupyter_smx.agent.system.processes import process


def ends_job_on_error(step: Callable[..., None]) -> Callable[..., None]:
    """Decorate a step of a job: an unexpected error in it ends the job, which would otherwise never end."""

    @functools.wraps(step)
    def sure(job: Any, *arguments: Any) -> None:
        try:
            step(job, *arguments)
        except Exception as error:  # noqa: BLE001 - border: the callbacks of a job
            process.print_error(error)
            job.abort(error)

    return sure
