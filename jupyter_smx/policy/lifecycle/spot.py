"""Check the rules of managed spot: which jobs may lose their hosts and how likely; ``attempts`` restarts them.

=======================  ==============================================================================================
SIGTERM                  first, as for a stop; SageMaker documents none (``ControllerApp.interruption_grace`` = 0: none)
SIGKILL                  after ``interruption_grace`` seconds; the default is EC2's notice of two minutes
the hosts                are released and never reused, whatever keep-alive the job asked for
the next attempt         new hosts, a fresh ``/opt/ml``, inputs once more, checkpoints restored, nothing else
``MaxRuntimeInSeconds``  the running time of all attempts
``MaxWaitTimeInSeconds`` everything from the moment in which the job was handed in
the bill                 the runs that were not interrupted (:mod:`jupyter_smx.policy.accounting.price`)
=======================  ==============================================================================================
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ResourceInUseError, ValidationError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import ACTIVE_STEPS, DesiredState
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.lifecycle.transitions import is_pulling_image

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

HOUR = 3_600.0


def check(spec: JobSpec) -> None:
    """Refuse spot requests that SageMaker would refuse.

    :raises ValidationError: a limit for waiting without spot, or below that for running.
    """
    if spec.max_wait and not spec.spot:
        raise ValidationError(
            f"--max-wait: {format_duration(spec.max_wait)} without --spot.",
            field="max_wait",
            value=spec.max_wait,
            rule="--max-wait limits waiting plus running, and only spot jobs have it.",
            cure="Add --spot, or use --max-run.",
        )
    if spec.max_wait and spec.max_wait < spec.max_run:
        raise ValidationError(
            f"--max-wait: {format_duration(spec.max_wait)} is less than --max-run, {format_duration(spec.max_run)}.",
            field="max_wait",
            value=spec.max_wait,
            rule="--max-wait covers waiting and running of all attempts, so it cannot be less than --max-run.",
            cure=f"For example --max-run {spec.max_wait}s; it is 1d by default.",
        )


def can_be_interrupted(job: Job, cluster: Cluster | None) -> bool:
    """Return True if the hosts of a job can be taken away now; ``cluster`` is their record."""
    return job.spec.spot and job.goal is DesiredState.RUN and job.state in ACTIVE_STEPS and _has_hosts(cluster)


def _has_hosts(cluster: Cluster | None) -> bool:
    """Return True if hosts exist; while lost ones are being replaced, there are none to take away."""
    return cluster is not None and cluster.state is ClusterState.IN_USE


def check_interruption(job: Job, cluster: Cluster | None, *, is_ending: bool = False) -> None:
    """Refuse to take hosts away from a job that has none, or whose hosts must not be interrupted.

    ``is_ending`` is True if its code has ended on every host.

    :raises ValidationError: it is no spot job.
    :raises ResourceInUseError: it has no running hosts now.
    """
    if not job.spec.spot:
        raise ValidationError(
            f"{job.name} is not a spot job.",
            field="job",
            value=job.name,
            rule="Only spot jobs can be interrupted.",
            cure="Start the job with --spot, or stop it.",
        )
    if is_ending or not can_be_interrupted(job, cluster):
        raise ResourceInUseError(
            f"{job.name} is {_format_state(job, cluster, is_ending=is_ending)}.",
            field="job",
            value=job.name,
            rule="A spot job can be interrupted while it is Downloading or Training on its hosts.",
        )


def _format_state(job: Job, cluster: Cluster | None, *, is_ending: bool) -> str:
    if is_ending:
        return "ending"
    if is_pulling_image(job):
        return "waiting for its image"
    return "waiting for other hosts" if job.state in ACTIVE_STEPS and not _has_hosts(cluster) else job.state.value


def is_interruption_due(per_hour: float, seconds: float, draw: float) -> bool:
    """Return True if an interruption comes within ``seconds``, at a rate ``per_hour``; ``draw`` is in [0, 1).

    For any division of an hour into intervals, no interruption comes with the probability ``exp(-per_hour)``.
    """
    return draw < -math.expm1(-per_hour * seconds / HOUR)


def is_wait_over(job: Job, now: float) -> bool:
    """Return True if a job exceeded its maximum wait time and has no stop request yet."""
    return (
        job.wait_until is not None and job.wait_until <= now and job.goal in (DesiredState.RUN, DesiredState.INTERRUPT)
    )


def note(job: Job) -> str:
    """Return a note about the hosts of an interrupted attempt; "" if there was none before this one."""
    if not job.attempts or not job.attempts[-1].interrupted:
        return ""
    return f"Attempt {job.attempts[-1].number} was interrupted: its hosts were released and are never reused."
