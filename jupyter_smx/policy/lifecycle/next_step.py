"""Decide the next step of a job and of a cluster, from records and observations."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState, is_final
from jupyter_smx.policy.lifecycle import keep_alive
from jupyter_smx.policy.lifecycle.dependencies import NO_DEPENDENCIES, DependencyState

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job


class JobStep(Enum):
    """The one thing to do for a job."""

    NOTHING = "nothing"
    WAIT_FOR_DEPENDENCIES = "wait for the jobs that it depends on"
    END_BLOCKED = "a job that it depends on did not complete: end it without running"
    PREPARE = "have its environment built, or its image found"
    PLACE = "find a pool or launch hosts, or stay in the queue"
    STOP_BEFORE_START = "end a job whose code never ran"
    PROVIDE_FILES = "put files of the controller's machine within reach of its hosts"
    DISPATCH = "give the job to its hosts"
    SEND_STOP = "ask the hosts to stop"
    DRAIN = "stop the helper hosts of a group that has ended"
    FINALIZE = "collect the outputs and record the result"
    RESET_PLACEMENT = "the hosts are gone and the code never began: place it again"
    FINALIZE_LOST = "the hosts are gone and the code had begun"


class ClusterStep(Enum):
    """The one thing to do for a cluster."""

    NOTHING = "nothing"
    ACQUIRE = "ask the engine for the hosts"
    WITHDRAW = "its hosts wait at the engine and no job needs them: give the request back"
    CONNECT = "open streams to the agents"
    HANDLE_LOST = "it is gone, or was unreachable for too long, while a job is on it"
    TERMINATE_IDLE = "it ended by itself while idle"
    RELEASE = "free what costs"


class JobObservation(Struct, frozen=True, kw_only=True):
    """State of a job on its hosts, from the agents' messages; never stored."""

    hosts: int = 0
    """Number of its hosts; 0 while it is on no cluster."""
    connected: bool = False
    """The streams to all of its hosts are open."""
    dispatched_hosts: int = 0
    """Number of hosts that have the job or had it."""
    dispatched: bool = False
    """All of its hosts have the job or had it."""
    stop_sent: bool = False
    """Its hosts were asked to stop."""
    ended: int = 0
    """Number of hosts that sent the record of their end."""
    hosts_to_drain: int = 0
    """Number of helper hosts that must be stopped because the group that they helped is done."""
    failed: bool = False
    """True if one of its hosts failed."""
    hosts_lost: bool = False
    """True if its hosts are gone, and their results were read or cannot be."""
    code_started: bool = False
    """The code may have begun on hosts that are lost."""
    prepared: bool = True
    """The environment or image of a job without hosts is there."""
    files_provided: bool = True
    """Its hosts can reach what it needs of the controller's machine."""


class ClusterObservation(Struct, frozen=True, kw_only=True):
    """Observed state of a cluster."""

    connected: bool = False
    """The streams to all of its agents are open."""
    gone: bool = False
    """True if its engine reports that its hosts are gone, or they were unreachable for too long."""
    busy: bool = False
    """An action of ours is under way, or waits to be tried again."""
    unwanted: bool = False
    """Its hosts wait at the engine for a job that should end."""
    is_withdrawing: bool = False
    """True if the current action withdraws the request."""


def next_job_step(
    job: Job, cluster: Cluster | None, progress: JobObservation, order: DependencyState = NO_DEPENDENCIES
) -> JobStep:
    """Decide the next step of a job; the same facts always give the same step."""
    if is_final(job.state):
        return JobStep.NOTHING
    if cluster is None:
        return JobStep.STOP_BEFORE_START if job.goal in TERMINAL_GOALS else _next_in_queue(job, progress, order)
    if progress.hosts and progress.ended == progress.hosts:
        return JobStep.FINALIZE
    if progress.hosts_lost:
        return (
            JobStep.FINALIZE_LOST
            if progress.code_started or job.goal is not DesiredState.RUN
            else JobStep.RESET_PLACEMENT
        )
    if cluster.state is not ClusterState.IN_USE or not progress.connected:
        return JobStep.NOTHING
    return _next_on_hosts(job, progress)


def _next_in_queue(job: Job, progress: JobObservation, order: DependencyState) -> JobStep:
    if order.verdict is not None:
        return JobStep.END_BLOCKED
    # What the name of an image means is asked when a job is handed in, and not when others let it begin.
    if not order.is_satisfied() and (progress.prepared or not job.spec.image):
        return JobStep.WAIT_FOR_DEPENDENCIES
    return JobStep.PLACE if progress.prepared else JobStep.PREPARE


def _next_on_hosts(job: Job, progress: JobObservation) -> JobStep:
    if not progress.dispatched:
        return _next_of_an_end(progress) if job.goal in TERMINAL_GOALS else _next_before_dispatch(progress)
    if (job.goal is not DesiredState.RUN or progress.failed) and not progress.stop_sent:
        return JobStep.SEND_STOP
    return JobStep.DRAIN if progress.hosts_to_drain and not progress.stop_sent else JobStep.NOTHING


def _next_of_an_end(progress: JobObservation) -> JobStep:
    """Decide the next step of a job that should end; it is sent to no more hosts, though some may have it."""
    if not progress.dispatched_hosts:
        return JobStep.STOP_BEFORE_START
    if progress.ended == progress.dispatched_hosts:
        return JobStep.FINALIZE
    return JobStep.NOTHING if progress.stop_sent else JobStep.SEND_STOP


def _next_before_dispatch(progress: JobObservation) -> JobStep:
    return JobStep.DISPATCH if progress.files_provided else JobStep.PROVIDE_FILES


def next_cluster_step(cluster: Cluster, seen: ClusterObservation, now: float) -> ClusterStep:
    """Decide the next step of a cluster; one action at a time."""
    if cluster.state is ClusterState.PROVISIONING:
        return _next_of_a_launch(seen)
    if seen.busy or cluster.state is ClusterState.TERMINATED:
        return ClusterStep.NOTHING
    if cluster.state is ClusterState.RELEASING:
        return ClusterStep.RELEASE
    if seen.gone:
        return ClusterStep.HANDLE_LOST if cluster.state is ClusterState.IN_USE else ClusterStep.TERMINATE_IDLE
    if keep_alive.is_expired(cluster, now):
        return ClusterStep.RELEASE
    return ClusterStep.NOTHING if seen.connected else ClusterStep.CONNECT


def _next_of_a_launch(seen: ClusterObservation) -> ClusterStep:
    if seen.unwanted and not seen.is_withdrawing:
        return ClusterStep.WITHDRAW
    return ClusterStep.NOTHING if seen.busy else ClusterStep.ACQUIRE
