"""Exceptions of jobs that did not complete: the remote exception, as one sentence and a traceback."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.records.job import failing_host
from jupyter_smx.model.records.lost_variables import format_loss
from jupyter_smx.model.records.summary import OUT_OF_MEMORY
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.kernel.request.payload import Received
    from jupyter_smx.model.records.job import HostEnd, Job, RemoteException

_USER_ERROR = "AlgorithmError: "
_MEMORY_ERROR = "OutOfMemory: "


class JobError(SmxError):
    """A job has its verdict and it is not ``Completed``; ``job`` is the record."""

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job

    def _render_traceback_(self) -> list[str]:
        """Return one sentence for IPython, since the frames between the user and the socket explain nothing."""
        return [f"{type(self).__name__}: {self}"]


class JobFailed(JobError):  # noqa: N818 - the name that the user reads; concurrent.futures has CancelledError beside it
    """The job failed. ``remote`` is the exception of its code, None when there was none (a signal, a lost host)."""

    def __init__(self, message: str, job: Job, remote: RemoteException | None) -> None:
        super().__init__(message, job)
        self.remote = remote

    @property
    def remote_traceback(self) -> str:
        """Traceback of the job's own exception, with lines as the cell counts them; "" when there was none."""
        return self.remote.traceback if self.remote else ""

    def _render_traceback_(self) -> list[str]:
        trace = self.remote_traceback.rstrip()
        return [*([trace, ""] if trace else []), f"{type(self).__name__}: {self}"]


class JobStopped(JobError):  # noqa: N818 - the name that the user reads
    """The job was stopped: by a user, or at its maximum run time or wait time."""


class MissingVariables(JobError):  # noqa: N818 - the name that the user reads
    """The job completed and lost variables to return: a disk was full, or its process ended too early.

    ``missing`` are the reasons by name, ``received`` the variables that came back.
    """

    def __init__(self, job: Job, missing: Mapping[str, str], received: Received) -> None:
        super().__init__(f"{job.name} completed, but {format_loss(missing)}", job)
        self.missing = dict(missing)
        self.received = received


class StillRunning(KeyboardInterrupt):
    """Ctrl-C ended the waiting; the job continues."""

    def __init__(self, name: str, *, array: bool = False) -> None:
        super().__init__(array_still_running_message(name) if array else still_running_message(name))

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def still_running_message(name: str) -> str:
    """Return the message about a job that continues after the cell or the command that showed it."""
    return f"{name} is still running. Stop it with `%smx stop {name}`, follow it with `%smx logs {name} -f`."


def array_still_running_message(name: str) -> str:
    """Return the same message for an array, which has no single log."""
    return f"{name} is still running. Stop it with `%smx stop {name}`, see its progress with `%smx jobs`."


def failure_of(job: Job) -> JobError | None:
    """Return the exception that a handle raises for a finished job; None if it completed."""
    status = job.status()
    if status is Status.FAILED:
        end = failing_host(job.hosts)
        remote = end.exception if end else None
        reason = _reason(job, end)
        told = f"{reason.rstrip('.')}. {job.failure_cure}" if job.failure_cure else reason
        return JobFailed(f"{job.name} failed: {told}", job, remote)
    if status is Status.STOPPED:
        max_run, max_wait = format_duration(job.spec.max_run), format_duration(job.spec.max_wait)
        limits = {
            SecondaryStatus.MAX_RUNTIME_EXCEEDED: f"reached its maximum run time of {max_run}",
            SecondaryStatus.MAX_WAIT_TIME_EXCEEDED: f"reached its maximum wait time of {max_wait}",
        }
        how = limits.get(job.state, "was stopped")
        return JobStopped(f"{job.name} {how}.", job)
    return None


def _reason(job: Job, end: HostEnd | None) -> str:
    cause = job.failure_cause()
    if end is None:
        return cause or "no host reported an exit status."
    if end.cause == "memory":
        return f"{OUT_OF_MEMORY}. {cause.removeprefix(_USER_ERROR).removeprefix(_MEMORY_ERROR)}".rstrip()
    if end.exception:
        return _exception_reason(end.exception, cause.removeprefix(_USER_ERROR), job.spec.entry_point)
    if end.signal:
        return f"{signal_name(end.signal)} terminated it on {end.host}. {cause}".rstrip()
    return cause or f"exit code {end.exit_code} on {end.host}."


def _exception_reason(exception: RemoteException, cause: str, entry_point: str) -> str:
    """Return class, text and line of an exception, and the record's addition: a host's finding, or a failure file."""
    script = f"{entry_point}, " if entry_point else ""
    line = f" ({script}line {exception.line})" if exception.line else ""
    said = ": ".join(part for part in (exception.type, exception.message) if part)
    if cause.startswith(said):
        more = cause[len(said) :].lstrip(". :")
        return f"{said}{line}. {more}" if more else f"{said}{line}"
    return f"{said}{line}"


def signal_name(number: int) -> str:
    """Name a signal, as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
