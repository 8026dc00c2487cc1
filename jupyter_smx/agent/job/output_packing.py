"""Pack the outputs of a job, again after each pause while a disk fails; many in a process of their own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent.channels import pack_outputs
from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.system.processes.forked_task import ForkedTask, answer_of
from jupyter_smx.agent.system.resources import disk, disk_wait

if TYPE_CHECKING:
    from jupyter_smx.agent.host.host import Host

    OnEnd = Callable[[Optional[Dict[str, Any]], str, bool], None]
    """Takes what was packed, or None and the error, and whether the packing was aborted."""


class OutputPacking:
    """Packs the outputs of one job. ``on_wait`` gets the reason of a wait for a disk, and "" when it is over."""

    def __init__(
        self,
        host: Host,
        job: str,
        outputs: List[Tuple[str, str]],
        on_wait: Callable[[str], None],
        abort: Callable[[Exception], None],
    ) -> None:
        self.task: Optional[ForkedTask] = None
        self.is_over = False
        """Set where the job ended while it waited: nothing is packed any more."""
        self.abort = abort
        self._host = host
        self._job = job
        self._on_wait = on_wait
        self._work = (host.folder.ml, outputs, host.spool.path(job))
        self._wait = disk_wait.DiskWait(host.config.disk_patience)

    def has_work(self) -> bool:
        """Return True if there is anything to pack."""
        return pack_outputs.has_work(*self._work)

    @ends_job_on_error
    def start(self, on_end: OnEnd) -> None:
        """Begin; ``on_end`` is called once."""
        if self.is_over:
            return
        work = functools.partial(pack_outputs.stage_out, *self._work, self._host.disks(self._job))
        if pack_outputs.is_small(*self._work):
            self._on_packed(on_end, *answer_of(work))
        else:
            self.task = ForkedTask(self._host.loop, work, functools.partial(self._on_packed, on_end))

    @ends_job_on_error
    def _on_packed(self, on_end: OnEnd, result: Optional[Dict[str, Any]], error: str) -> None:
        task, self.task = self.task, None
        answer = result or {}
        later = answer.get("later", "")
        # What filled a disk may be small in an archive, and then the reserve holds it and the record.
        if answer.get("is_full") and disk.release_reserve(self._host.folder.spool):
            self.start(on_end)
            return
        pause = self._wait.next_pause() if later else None
        self._on_wait(later if pause is not None else "")
        if pause is not None:
            self._host.loop.later(pause, functools.partial(self.start, on_end))
            return
        if later:
            result, error = None, later
        if result is None:
            pack_outputs.remove_partial_archives(self._host.spool.path(self._job))
        on_end(result, error, task is not None and task.was_aborted)
