"""Write the record of a job's end, again later while a disk refuses it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from jupyter_smx.agent import errors
from jupyter_smx.agent.host import end_record
from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import disk

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import EndRecord
    from jupyter_smx.agent.host.host import Host

DISK_RETRY = 1.0
"""Seconds until a disk that refused is tried again."""
_CONNECTED_LIMIT = 10.0
"""Seconds after which a record that a disk refuses is only sent to the controller, and its host ends."""


class EndRecordWriter:
    """Writes one job's record; ``on_written`` gets the fields of the event of the end."""

    def __init__(
        self, host: Host, job: str, on_written: Callable[[Dict[str, Any]], None], abort: Callable[[Exception], None]
    ) -> None:
        self.pending: Optional[EndRecord] = None
        """The record while a disk refuses it."""
        self.abort = abort
        self._host = host
        self._job = job
        self._on_written = on_written
        self._fails_since: Optional[float] = None

    def write(self, record: EndRecord) -> None:
        """Write the record now or later."""
        self.pending = record
        self._write()

    @ends_job_on_error
    def _write(self) -> None:
        record = self.pending
        if record is None:
            return
        try:
            told = self._host.spool.write_record(self._job, record)
        except OSError as error:
            if self._can_wait(error):
                self._host.loop.later(DISK_RETRY, self._write)
                return
            why = disk.format_error(error, self._host.disks(self._job))
            self._host.unusable_reason = f"host: the record of job {self._job} cannot be written: {why}"
            record["errors"].append(self._host.unusable_reason)
            told = end_record.unwritten_event(record, self._host.unusable_reason)
        self.pending = None
        self._on_written(told)

    def _can_wait(self, error: OSError) -> bool:
        """Return True to write the record later: the disk may recover, and no controller waits for it yet."""
        if self._fails_since is None:
            process.log(f"the record of {self._job} cannot be written now: {error}")
            self._fails_since = time.monotonic()
        waited = time.monotonic() - self._fails_since
        if self._host.listeners and (errors.is_full(error) or waited >= _CONNECTED_LIMIT):
            return False  # a controller takes the record as it is sent
        return errors.is_temporary(error, waited)

    def write_last(self, record: EndRecord) -> None:
        """Make a last attempt to write the record; log a failure on the host."""
        try:
            self._host.spool.write_record(self._job, record)
        except OSError as error:
            process.log(f"the record of {self._job} is lost: {error}")
