"""Collect what a job wrote into folders that it made in place of the links in the machine's ``/opt/ml``.

``rm -rf /opt/ml/model && mkdir /opt/ml/model`` removes a link, and the folder after it belongs to no host.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.system.processes.forked_task import ForkedTask
from jupyter_smx.agent.system.resources import disk

if TYPE_CHECKING:
    from jupyter_smx.agent.host.host import Host


class ReplacedFolders:
    """Moves the files of one job into the folders of its host, in a process of its own: the disk may be another one."""

    def __init__(self, host: Host, job: str, abort: Callable[[Exception], None]) -> None:
        self.task: Optional[ForkedTask] = None
        self.abort = abort
        self._host = host
        self._job = job

    def collect(self, on_end: Callable[[str], None]) -> None:
        """Begin; ``on_end`` is called once, with a sentence where files could not be moved, else with ""."""
        shared = self._host.isolation.opt_ml
        links = None if shared is None else shared.replaced_links()
        if links is None:
            on_end("")
            return
        work = functools.partial(disk.with_disk_errors, links.collect, self._host.disks(self._job))
        self.task = ForkedTask(self._host.loop, work, functools.partial(self._on_moved, on_end))

    @ends_job_on_error
    def _on_moved(self, on_end: Callable[[str], None], result: Optional[Dict[str, Any]], error: str) -> None:
        self.task = None
        said = f"host: files in the /opt/ml of the machine could not be collected: {error.rstrip('.')}."
        on_end(said if result is None else "")
