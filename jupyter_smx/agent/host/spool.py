"""Files of jobs for the controller: log, artifacts and end record, in one folder for each job."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from jupyter_smx.agent.host import end_record
from jupyter_smx.agent.system.files import host_layout, safe_open
from jupyter_smx.agent.system.resources import disk
from jupyter_smx.agent.wire import MAX_BODY

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import EndRecord

_JOB = re.compile(r"[0-9A-Za-z_-]{1,64}")


class SpoolError(Exception):
    """A name that leads out of the spool, or to nothing."""


def check_job(job: Any) -> str:
    """Return a job's id if it can be the name of a folder.

    :raises SpoolError: other characters, or longer than 64.
    """
    if isinstance(job, str) and _JOB.fullmatch(job):
        return job
    raise SpoolError(f"job: {job!r} is not a valid job id; use letters, digits, _ and -.")


class Spool:
    """The folder with one folder for each job that this host ever started."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, job: str, *names: str) -> str:
        """Return the path of a job's folder or of a file in it."""
        return os.path.join(self.root, check_job(job), *names)

    def has_job(self, job: str) -> bool:
        """Return True if this host ever accepted the job."""
        return os.path.isdir(self.path(job))

    def adopt(self, slot: str, job: str) -> str:
        """Rename a parked child's folder to the job's; open files in it stay valid. Return the new path.

        :raises FileExistsError: the job was accepted before.
        """
        path = self.path(job)
        if os.path.lexists(path):
            raise FileExistsError(path)
        os.rename(slot, path)
        return path

    def write_record(self, job: str, record: EndRecord) -> Dict[str, Any]:
        """Write the record of the end, whole or not at all; return its part of the event of the end.

        :raises OSError: the disk is full, even the space reserved for records.
        """
        os.makedirs(self.path(job), mode=0o700, exist_ok=True)
        text, told = end_record.fit_event(record)
        disk.write_whole(self.path(job, host_layout.END_RECORD), text, self.root)
        return told

    def record(self, job: str) -> Optional[Dict[str, Any]]:
        """Read the record of the end, None while there is none."""
        return read_json(self.path(job, host_layout.END_RECORD))

    def report(self, job: str, sent: Optional[Dict[str, Any]] = None) -> Optional[Dict[str, Any]]:
        """Return the newest report of a job's process, None while there is none; ``sent`` is the last that it sent.

        A process that can send no more writes its reports to a file. So may another one, which the job forked.
        """
        written = read_json(self.path(job, host_layout.REPORT))
        if sent is None:
            return written
        return written if written is not None and written.get("pid") == sent.get("pid") else sent

    def size(self, job: str, name: str = host_layout.JOB_LOG) -> int:
        """Return the size of one file in bytes, 0 if it does not exist."""
        try:
            return os.stat(self.path(job, name)).st_size
        except OSError:
            return 0

    def read(self, job: str, name: Any, offset: int, limit: int) -> Tuple[bytes, int]:
        """Read a piece of a file, and its whole size.

        :raises SpoolError: a name that leads out of the job's folder, or no such file.
        """
        folder = os.path.realpath(self.path(job))
        path = os.path.realpath(os.path.join(folder, str(name)))
        if not path.startswith(folder + os.sep):
            raise SpoolError(f"name: {name!r} is not in the job's folder.")
        try:
            with safe_open.open_to_read(path) as file:
                file.seek(max(0, offset))
                return file.read(max(0, min(limit, MAX_BODY))), os.fstat(file.fileno()).st_size
        except OSError as error:
            if name == host_layout.JOB_LOG and os.path.isdir(folder):
                return b"", 0  # a job that ended before it began has written nothing
            raise SpoolError(f"name: {name!r} of job {job} cannot be read ({error.strerror}).") from error


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """Read a JSON object from a file, None when there is none that can be read."""
    try:
        with safe_open.open_to_read(path) as file:
            content = json.loads(file.read().decode())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
