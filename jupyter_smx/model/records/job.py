"""The record of a job: its request, its state, its desired state, and everything observed while it ran."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from jupyter_smx.model.records.cluster import WarmPool
from jupyter_smx.model.results.progress import Expectation, MetricValue, Progress, StepPace
from jupyter_smx.model.results.provenance import Provenance
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.results.usage import Usage
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import ACTIVE_STEPS, DesiredState, SecondaryStatus, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOST_PREFIX = "host: "
"""Prefix of the sentence of a host that refuses a job because of the host, not because of the request."""

_OUT_OF_MEMORY = re.compile(
    r"(?:^|: )out of memory(?=\W*$|[.:;,!(]| (?:error|exception|on|when|while)\b)"
    r"|\b(?:cuda|hip|mps|rocm|xpu)\w*[^.\n]{0,60}(?<!not )(?<!n't )\bout of memory\b"
    r"|\bout of memory\b[^.\n]{0,40}\ballocat"
    r"|^(?!.*\bquota\b).*RESOURCE_EXHAUSTED.*?(?:\bmemory\b|allocat|\bOOM\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""Messages of CUDA, its libraries and XLA in exceptions of other classes; services use similar ones for quotas."""

IMAGE_GONE = "image_gone"
"""Key in a job's timings: its image was missing when hosts were to be created from it."""


class Transition(Struct, frozen=True, kw_only=True):
    """One row of SageMaker's ``SecondaryStatusTransitions``; the last of a running job has no end."""

    status: SecondaryStatus
    start_time: float
    end_time: float | None = None
    status_message: str = ""


class RemoteException(Struct, frozen=True, kw_only=True):
    """An exception of the user's code: class name, text, the whole traceback, and the line of the cell it names."""

    type: str
    message: str
    traceback: str
    line: int | None = None


class HostEnd(Struct, frozen=True, kw_only=True):
    """End of the job on one host, from the record of that host's agent.

    ``exit_code`` is None when a signal ended it, then ``signal`` is its number. ``cause`` is ``exit``, ``signal``,
    ``stopped``, ``drained`` (the group that it helped was done), ``max_runtime``, ``max_wait``, ``interrupted``,
    ``memory`` or ``host`` (ours: the host was lost). ``exited_at`` is when its process ended, seconds since the epoch
    by the controller's clock.
    """

    host: str
    cause: str
    exit_code: int | None = None
    signal: int | None = None
    failure: str = ""
    exception: RemoteException | None = None
    left_behind: tuple[str, ...] = ()
    reason: str = ""
    """The failure file's text: the script's own, or what sagemaker-training writes there; "" where there is none."""
    message: str | None = ""
    """Content of a processing job's ``/opt/ml/output/message``; None if that is no UTF-8."""
    errors: tuple[str, ...] = ()
    """Sentences about errors that did not end the job, such as a variable that could not come back."""
    exited_at: float | None = None
    end_reason: str = ""
    """Why its engine took the host away, in a sentence; "" if it did not, or gives no reason."""

    def is_successful(self) -> bool:
        """Return True if the job's part here exited by itself with code 0, or ended because its leader was done."""
        return self.cause == "drained" or (self.cause == "exit" and self.exit_code == 0)

    def is_stopped_by_request(self) -> bool:
        """Return True if the controller ended it: by a request, a limit, or another host."""
        return self.cause in ("stopped", "drained", "max_runtime", "max_wait", "interrupted")

    def is_host_failure(self) -> bool:
        """Return True if the host failed and not the job: it was lost, or refused the job for reasons of its own."""
        return self.cause == "host" or (self.cause == "refused" and self.failure.startswith(_HOST_PREFIX))

    def is_out_of_memory(self) -> bool:
        """Return True if memory ran out: the system killed the job, or its code could not get more, also on a GPU."""
        found = self.exception
        if found is None:
            return self.cause == "memory"
        is_named = found.type.lower().endswith(("memoryerror", "outofmemory"))
        return self.cause == "memory" or is_named or _OUT_OF_MEMORY.search(found.message) is not None


def failing_host(hosts: Iterable[HostEnd]) -> HostEnd | None:
    """Return the host whose end explains the job's; None if there is none.

    Requested ends and successes explain nothing. Causes that other hosts see as a broken connection (a lost host, lack
    of memory) come before an exception, that before a signal, and that before an exit code. Of equal causes, the first
    one in time counts.
    """
    return min(hosts, key=_failure_rank, default=None)


def _failure_rank(end: HostEnd) -> tuple[bool | float, ...]:
    return (
        end.is_stopped_by_request(),
        end.is_successful(),
        not end.is_host_failure(),
        end.cause != "memory",
        end.exception is None,
        end.signal is None,
        end.exit_code in (0, None),
        math.inf if end.exited_at is None else end.exited_at,
    )


class Attempt(Struct, frozen=True, kw_only=True):
    """A run after which the job began again: it failed by our fault, or was interrupted; times are epoch seconds."""

    number: int
    cluster: str
    reason: str
    ended_at: float
    started_at: float | None = None
    hosts: tuple[HostEnd, ...] = ()
    ran_seconds: float | None = None
    """Running time in seconds, by a monotonic clock; None if it was not measured."""
    interrupted: bool = False
    """True if its spot hosts were taken away; such a run counts as no retry and is not billed."""

    def seconds(self) -> float:
        """Count how long it ran."""
        if self.ran_seconds is not None:
            return self.ran_seconds
        return 0.0 if self.started_at is None else max(0.0, self.ended_at - self.started_at)


class Job(Struct, frozen=True, kw_only=True):
    """A job; changed only by ``msgspec.structs.replace``. Times are seconds since the epoch.

    ``timings`` are moments on the way to the first line of user code, seconds since the epoch by the controller's
    clock, also those on a host whose clock is wrong: ``magic, accepted, building, pulling, pulled, built, committed,
    sent, received, awake, first_line, exited, ended, final``.
    """

    id: str
    name: str
    spec: JobSpec
    state: SecondaryStatus = SecondaryStatus.PENDING
    goal: DesiredState = DesiredState.RUN
    abandoned: bool = False
    """Its stop does not wait for hosts that cannot be reached."""
    cluster: str = ""
    lease: int = 0
    keep_alive: int | None = None
    """Keep-alive in seconds that was set after the submission; None if that of the request counts."""
    attempt: int = 1
    """The run of the code at hand, from 1; each retry is another one."""
    attempts: tuple[Attempt, ...] = ()
    """The runs before it."""
    wait_until: float | None = None
    """When it has waited and run for as long as it may, by the clock as people have set it; None without a limit."""
    placements: int = 1
    """Number of placements in this attempt: hosts that are lost before the code begins are replaced."""
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    ran_seconds: float | None = None
    """Running time of the last attempt in seconds, by a monotonic clock; set with the result, None if not measured."""
    counted_from: float | None = None
    """When the hosts of the attempt at hand began to work for it, by the clock as people have set it since."""
    modified_at: float = 0.0
    transitions: tuple[Transition, ...] = ()
    why: Why | None = None
    failure_reason: str = ""
    """SageMaker's ``FailureReason``."""
    failure_message: str = ""
    """The same with more detail, such as the exception or the signal; see :meth:`failure_text`."""
    failure_cure: str = ""
    """Cure of the failure for the user, with the option that fixes it; "" if unknown."""
    exit_message: str = ""
    """SageMaker's ``ExitMessage``: content of ``/opt/ml/output/message`` from the hosts of a processing job."""
    hosts: tuple[HostEnd, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    received: dict[str, int] = {}
    """Sizes in bytes of the returned variables."""
    warm_pool: WarmPool | None = None
    timings: dict[str, float] = {}
    image: Image | None = None
    """The image that its hosts are made of, as it was when the engine was asked for it: all attempts run the same."""
    interpreter: str | None = None
    """The engine's result for ``--python`` at the submission; None if that names an interpreter of this machine."""
    progress: Progress | None = None
    """Last progress; set with the verdict."""
    metrics: tuple[MetricValue, ...] = ()
    """The last value of each metric; set with the verdict."""
    pace: StepPace | None = None
    """Pace of its steps, if it printed counts; set with the verdict."""
    metric_notes: tuple[str, ...] = ()
    """Sentences about metrics that could not be read."""
    provenance: Provenance | None = None
    """Provenance; set with the verdict."""
    peak: Usage | None = None
    """Peak usage of its hosts together; set with the verdict."""

    def status(self) -> Status:
        """SageMaker's ``Status`` for the step the job is at."""
        return status_of(self.state)

    def last_modified_at(self) -> float:
        """Return SageMaker's ``LastModifiedTime``: the time of the last change, at first that of the submission."""
        return self.modified_at or self.created_at

    def wanted_keep_alive(self) -> int | None:
        """Return the keep-alive in seconds that counts: the last one that was set, else that of the request."""
        return self.spec.keep_alive if self.keep_alive is None else self.keep_alive

    def failure_cause(self) -> str:
        """Return why the job failed, without the cure; "" if it did not."""
        return self.failure_message or self.failure_reason

    def failure_text(self) -> str:
        """Return why the job failed and the cure, for people; "" if it did not."""
        cause = self.failure_cause()
        return f"{cause.rstrip('.')}. {self.failure_cure}" if self.failure_cure else cause

    def python_version(self) -> str:
        """Return the full version of the Python that ran the code; "" before the verdict, or if unknown."""
        return self.provenance.python_version if self.provenance is not None else ""

    def interruptions(self) -> int:
        """Count the interruptions, when its hosts were taken away."""
        return sum(attempt.interrupted for attempt in self.attempts)

    def max_attempts(self) -> int:
        """Count the runs that it may have, as far as that is known now."""
        return 1 + self.spec.retries + self.interruptions()


def current_attempt_transitions(job: Job) -> tuple[Transition, ...]:
    """Return the transitions of the current attempt, from its ``Starting`` on."""
    rows = job.transitions
    since = max((at for at, row in enumerate(rows) if row.status is SecondaryStatus.STARTING), default=0)
    return rows[since:]


def attempt_started_at(job: Job) -> float | None:
    """Return when the hosts of the current attempt began to work for the job; None if that was not reported."""
    rows = current_attempt_transitions(job)
    if not rows or rows[0].status is not SecondaryStatus.STARTING:
        return None  # what is downloaded before there are hosts is their image
    if IMAGE_GONE in job.timings or any(row.status is SecondaryStatus.PENDING for row in rows):
        return None  # its image was missing when its hosts were to be launched; it is downloaded again, or was
    return next((row.start_time for row in rows if row.status in ACTIVE_STEPS), None)


class JobSummary(Struct, frozen=True, kw_only=True):
    """A job in lists and events: no source, no path, no value of a variable."""

    id: str
    name: str
    base_name: str
    kind: Literal["train", "process"]
    engine: str
    instances: str
    status: Status
    secondary_status: SecondaryStatus
    message: str
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    pool: str = ""
    start: str = ""
    queue_position: int | None = None
    warm_pool_status: str = ""
    first_line_seconds: float | None = None
    """From submission to the first line of user code."""
    cost: float | None = None
    array: ArrayTask | None = None
    attempt: int = 1
    attempts: int = 1
    """Maximum number of runs: one, its retries, and one for each interruption."""
    failure_type: str = ""
    failure_line: int | None = None
    progress: Progress | None = None
    metrics: dict[str, float | None] = {}
    """Newest value of each metric; None is nan or an infinity."""
    expectation: Expectation | None = None
    expected_start_at: float | None = None
    """Expected start of a waiting job, seconds since the epoch; None if there is no estimate."""
    usage: Usage | None = None
    """Current resource usage; None before the first sample, and after the end."""
    peak: Usage | None = None
    """Peak usage; set with the verdict."""
    spot: bool = False
    """True if its hosts may be taken away while it runs (managed spot)."""
    image: Image | None = None
    """Image of its hosts; the id is "" until the name is resolved. None: hosts without an image."""
    modified_at: float = 0.0
    """SageMaker's ``LastModifiedTime``; 0 in the summary of an earlier version."""
