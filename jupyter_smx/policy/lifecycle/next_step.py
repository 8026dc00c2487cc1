"""What is next: one step for a job, one step for a cluster, from what is recorded and what was seen."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import ENDING, Goal, is_final
from jupyter_smx.policy.lifecycle.dependencies import FREE, Order

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job


class JobStep(Enum):
    """The one thing to do for a job."""

    NOTHING = "nothing"
    HOLD = "wait for the jobs that it comes after"
    END_UNRUN = "a job that it comes after did not complete: end it without running"
    PREPARE = "have its environment built, or its image found"
    PLACE = "find a pool or launch hosts, or stay in the queue"
    STOP_UNSTARTED = "end a job whose code never ran"
    BRING = "put files of the controller's machine within reach of its hosts"
    DISPATCH = "give the job to its hosts"
    SEND_STOP = "ask the hosts to stop"
    DRAIN = "ask the hosts to stop whose group helps one that is done"
    FINISH = "bring the outputs home and give the verdict"
    REPLACE = "the hosts are gone and the code never began: place it again"
    FINISH_LOST = "the hosts are gone and the code had begun"


class ClusterStep(Enum):
    """The one thing to do for a cluster."""

    NOTHING = "nothing"
    ACQUIRE = "ask the engine for the hosts"
    CONNECT = "open streams to the agents"
    LOSE = "the engine says that it is gone while a job is on it"
    FORGET = "it ended by itself while idle"
    RELEASE = "free what costs"


class Progress(Struct, frozen=True, kw_only=True):
    """What is known of a job on its hosts, from the agents' own words; never stored.

    ``given`` of ``hosts`` have the job or had it, ``dispatched`` says that of all; ``ended`` gave their
    record; ``failed`` says that one of them ended badly, ``drains`` that some have to be told that the group which they
    helped is done; ``lost`` that the engine knows the hosts no more; ``ran`` that, there, the code may have begun.
    ``prepared`` says of a job without hosts that its environment is there, ``brought`` of one on hosts that they can
    reach what it needs of the controller's machine.
    """

    hosts: int = 0
    connected: bool = False
    given: int = 0
    dispatched: bool = False
    stop_sent: bool = False
    ended: int = 0
    drains: bool = False
    failed: bool = False
    lost: bool = False
    ran: bool = False
    prepared: bool = True
    brought: bool = True


class Seen(Struct, frozen=True, kw_only=True):
    """What is known of a cluster now: streams open, the engine's clear no, an action of ours under way."""

    connected: bool = False
    gone: bool = False
    busy: bool = False


def next_job_step(job: Job, cluster: Cluster | None, progress: Progress, order: Order = FREE) -> JobStep:
    """Decide the next step of a job; the same facts always give the same step."""
    if is_final(job.state):
        return JobStep.NOTHING
    if cluster is None:
        return JobStep.STOP_UNSTARTED if job.goal in ENDING else _next_in_line(job, progress, order)
    if progress.hosts and progress.ended == progress.hosts:
        return JobStep.FINISH
    if progress.lost:
        return JobStep.FINISH_LOST if progress.ran or job.goal is not Goal.RUN else JobStep.REPLACE
    if cluster.state is not ClusterState.IN_USE or not progress.connected:
        return JobStep.NOTHING
    return _next_on_hosts(job, progress)


def _next_in_line(job: Job, progress: Progress, order: Order) -> JobStep:
    if order.verdict is not None:
        return JobStep.END_UNRUN
    # What the name of an image means is asked when a job is handed in, and not when others let it begin.
    if not order.lets_begin() and (progress.prepared or not job.spec.image):
        return JobStep.HOLD
    return JobStep.PLACE if progress.prepared else JobStep.PREPARE


def _next_on_hosts(job: Job, progress: Progress) -> JobStep:
    if not progress.dispatched:
        return _next_of_an_end(progress) if job.goal in ENDING else _next_before_dispatch(progress)
    if (job.goal is not Goal.RUN or progress.failed) and not progress.stop_sent:
        return JobStep.SEND_STOP
    return JobStep.DRAIN if progress.drains and not progress.stop_sent else JobStep.NOTHING


def _next_of_an_end(progress: Progress) -> JobStep:
    """Decide the next step of a job that should end and is given to no more hosts, though some may have it."""
    if not progress.given:
        return JobStep.STOP_UNSTARTED
    if progress.ended == progress.given:
        return JobStep.FINISH
    return JobStep.NOTHING if progress.stop_sent else JobStep.SEND_STOP


def _next_before_dispatch(progress: Progress) -> JobStep:
    return JobStep.DISPATCH if progress.brought else JobStep.BRING


def next_cluster_step(cluster: Cluster, seen: Seen, now: float) -> ClusterStep:
    """Decide the next step of a cluster; one action at a time."""
    if seen.busy or cluster.state is ClusterState.TERMINATED:
        return ClusterStep.NOTHING
    if cluster.state is ClusterState.PROVISIONING:
        return ClusterStep.ACQUIRE
    if cluster.state is ClusterState.RELEASING:
        return ClusterStep.RELEASE
    if seen.gone:
        return ClusterStep.LOSE if cluster.state is ClusterState.IN_USE else ClusterStep.FORGET
    if cluster.state is ClusterState.AVAILABLE and cluster.expires_at is not None and cluster.expires_at <= now:
        return ClusterStep.RELEASE
    return ClusterStep.NOTHING if seen.connected else ClusterStep.CONNECT
