"""The state of a job: SageMaker's ``Status`` and ``SecondaryStatus``, and the valid transitions.

Source: ``DescribeTrainingJob`` (``TrainingJobStatus``, ``SecondaryStatus``). *Intention is not state*: what a
job should do is its :class:`DesiredState`, a field of its own.
"""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """Status in a list of jobs; SageMaker's ``TrainingJobStatus`` and ``ProcessingJobStatus``."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


FINAL_STATUSES = frozenset({Status.COMPLETED, Status.FAILED, Status.STOPPED})
"""Statuses of a job with a verdict."""


class SecondaryStatus(str, Enum):
    """The exact step; SageMaker's ``SecondaryStatus``. Processing jobs have the same steps here."""

    PENDING = "Pending"
    STARTING = "Starting"
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    STOPPING = "Stopping"
    UPLOADING = "Uploading"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    MAX_WAIT_TIME_EXCEEDED = "MaxWaitTimeExceeded"
    INTERRUPTED = "Interrupted"


ACTIVE_STEPS = frozenset({SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING})
"""Steps in which hosts work for a job; a run begins, and is counted and paid for, with the first of them."""


class DesiredState(str, Enum):
    """State that a job should reach."""

    RUN = "run"
    STOP = "stop"
    EXPIRE = "expire"
    """Stopped, because it waited and ran for as long as it may (``MaxWaitTimeInSeconds``)."""
    INTERRUPT = "interrupt"
    """Back at its start, because its hosts are taken away (managed spot); then it should run again."""


TERMINAL_GOALS = frozenset({DesiredState.STOP, DesiredState.EXPIRE})
"""Goals that are the end of a job."""


# One row per step: its rank (news of a lower rank is stale), the status it belongs to, what the user reads.
_TABLE: dict[SecondaryStatus, tuple[int, Status, str]] = {
    SecondaryStatus.PENDING: (0, Status.IN_PROGRESS, "Waiting for capacity."),
    SecondaryStatus.STARTING: (1, Status.IN_PROGRESS, "Launching requested instances."),
    SecondaryStatus.DOWNLOADING: (2, Status.IN_PROGRESS, "Copying the input channels."),
    SecondaryStatus.TRAINING: (3, Status.IN_PROGRESS, "Running the code."),
    SecondaryStatus.INTERRUPTED: (4, Status.IN_PROGRESS, "Its spot instances are being reclaimed."),
    SecondaryStatus.STOPPING: (5, Status.STOPPING, "Stopping the job."),
    SecondaryStatus.UPLOADING: (6, Status.IN_PROGRESS, "Uploading outputs."),
    SecondaryStatus.COMPLETED: (9, Status.COMPLETED, "The job completed."),
    SecondaryStatus.FAILED: (9, Status.FAILED, "The job failed."),
    SecondaryStatus.STOPPED: (9, Status.STOPPED, "The job was stopped."),
    SecondaryStatus.MAX_RUNTIME_EXCEEDED: (9, Status.STOPPED, "The job reached its maximum run time."),
    SecondaryStatus.MAX_WAIT_TIME_EXCEEDED: (9, Status.STOPPED, "The job reached its maximum wait time."),
}

_FINAL_RANK = 9
DISK_WAIT = "It waits for a disk of its host. "
"""Beginning of the message of a job that waits for a full, read-only or failing disk; the reason follows."""
REUSE_MESSAGE = "Reusing a warm pool."
"""Message of a job that starts on a warm pool."""


def status_of(step: SecondaryStatus) -> Status:
    """Return the ``Status`` of a step."""
    return _TABLE[step][1]


def message_of(step: SecondaryStatus) -> str:
    """Return the default message of a step."""
    return _TABLE[step][2]


def is_final(step: SecondaryStatus) -> bool:
    """Return True for a step with a verdict; verdicts never change."""
    return _TABLE[step][0] == _FINAL_RANK


def can_transition(old: SecondaryStatus, new: SecondaryStatus) -> bool:
    """Return True if ``new`` may follow ``old`` within one attempt: later in the table, and never after a verdict."""
    return not is_final(old) and _TABLE[new][0] > _TABLE[old][0]
