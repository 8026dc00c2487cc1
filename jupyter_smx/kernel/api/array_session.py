"""Submit arrays and update their card: grids of hyperparameters, and calls of a function."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from jupyter_smx.kernel.display.array_card import array_card_of
from jupyter_smx.kernel.handles.job_array import JobArray
from jupyter_smx.model.name import job_name
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.kernel.api.session import Session
    from jupyter_smx.kernel.client.array_rerun import ArrayRerun
    from jupyter_smx.kernel.handles.job import Job
    from jupyter_smx.kernel.request.grid import Grid
    from jupyter_smx.model.spec.array import TaskOverrides

_REDRAW = 1.0
"""Seconds between two cards of one array: each one is written into the notebook."""


def submit_job_or_array(session: Session, spec: JobSpec, grid: Grid | None) -> Job | JobArray:
    """Hand in one job, or a task for each point of a grid.

    :raises SmxError: the controller refuses; nothing was created.
    """
    if grid is None:
        return session.submit(spec)
    return submit_array(session, spec, grid.tasks, title=grid.title, max_concurrent=grid.max_concurrent)


def submit_array(
    session: Session,
    spec: JobSpec,
    tasks: Sequence[TaskOverrides],
    *,
    title: str,
    max_concurrent: int = 0,
    calls: Sequence[str] = (),
) -> JobArray:
    """Hand many jobs in, show one card for all of them and keep it true from then on.

    :raises SmxError: the controller refuses one of them; nothing was created.
    """
    array_id = os.urandom(16).hex()
    with session.start_card(array_id, job_name(spec.base_name or spec.kind, array_id)):
        summary = session.client.submit_array(array_id, spec, tasks, title=title, max_concurrent=max_concurrent)
    watch = session.watcher.refresh_and_watch_array
    made = JobArray(summary, session.client, session.attach, watch, calls)
    session.latest_handle = made
    session.show(array_card_of(summary, (), time.time()))
    made.add_listener(_ArrayCardUpdater(session).draw)
    session.watcher.watch_array(made)
    session.follow_pool(made)
    return made


def submit_rerun(session: Session, request: JobSpec | ArrayRerun) -> Job | JobArray:
    """Hand in the request of a job or of an array that ran before.

    :raises SmxError: the controller refuses; nothing was created.
    """
    if isinstance(request, JobSpec):
        return session.submit(request)
    limit = request.max_concurrent
    return submit_array(session, request.spec, request.tasks, title=request.title, max_concurrent=limit)


class _ArrayCardUpdater:
    """Draws the card of one array, not at each of its changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._drawn = 0.0

    def draw(self, made: JobArray) -> None:
        now = time.monotonic()
        if made.ended() or now - self._drawn >= _REDRAW:
            self._drawn = now
            self._session.screen.update(array_card_of(made.latest_summary, made.tasks, time.time()))
