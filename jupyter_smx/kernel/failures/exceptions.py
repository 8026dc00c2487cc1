"""Exceptions of jobs that did not complete: the remote exception, as one sentence and a traceback."""

from __future__ import annotations

import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.failures import hints
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.records.job import failing_host
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.records.job import HostEnd, Job, RemoteException


class JobError(SmxError):
    """A job has its verdict and it is not ``Completed``; ``job`` is the record."""

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job

    def _render_traceback_(self) -> list[str]:
        """Give IPython one sentence, since the frames between the user and the socket explain nothing."""
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


class StillRunning(KeyboardInterrupt):
    """Ctrl-C ended the waiting; the job goes on."""

    def __init__(self, name: str, *, array: bool = False) -> None:
        super().__init__(array_still_running_message(name) if array else still_running_message(name))

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def still_running_message(name: str) -> str:
    """Say that a job outlives the cell or the command that showed it."""
    return f"{name} is still running. Stop it with `%smx stop {name}`, follow it with `%smx logs {name} -f`."


def array_still_running_message(name: str) -> str:
    """Return the same message for an array, which has no single log."""
    return f"{name} is still running. Stop it with `%smx stop {name}`, see its progress with `%smx jobs`."


def failure_of(job: Job, namespace: Mapping[str, Any] = MappingProxyType({})) -> JobError | None:
    """Give what a handle raises for a finished job; None when it completed. ``namespace`` are notebook variables."""
    status = job.status()
    if status is Status.FAILED:
        end = failing_host(job.hosts)
        remote = end.exception if end else None
        hint = hints.failure_hint(job.spec, remote, namespace) if remote else ""
        return JobFailed(f"{job.name} failed: {_append_hint(_reason(job, end), hint)}", job, remote)
    if status is Status.STOPPED:
        max_run, max_wait = format_duration(job.spec.max_run), format_duration(job.spec.max_wait)
        limits = {
            SecondaryStatus.MAX_RUNTIME_EXCEEDED: f"reached its maximum run time of {max_run}",
            SecondaryStatus.MAX_WAIT_TIME_EXCEEDED: f"reached its maximum wait time of {max_wait}",
        }
        how = limits.get(job.state, "was stopped")
        return JobStopped(f"{job.name} {how}.", job)
    return None


def _append_hint(reason: str, hint: str) -> str:
    return f"{reason.rstrip('.')}. {hint}" if hint else reason


def _reason(job: Job, end: HostEnd | None) -> str:
    if end is None:
        return job.failure_text() or "no host reported an exit status."
    if end.exception:
        script = f"{job.spec.entry_point}, " if job.spec.entry_point else ""
        line = f" ({script}line {end.exception.line})" if end.exception.line else ""
        return f"{end.exception.type}: {end.exception.message}{line}"
    if end.signal:
        return f"{signal_name(end.signal)} terminated it on {end.host}. {job.failure_text()}".rstrip()
    return job.failure_text() or f"exit code {end.exit_code} on {end.host}."


def signal_name(number: int) -> str:
    """Name a signal, as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
