"""Launches in pure functions: when the limit counts, and what a job is told while its hosts wait at their engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from draws import NOW, a_cluster, a_job
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import ClusterState, Handle, HostHandle, QueueStatus
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.lifecycle import launch, transitions
from jupyter_smx.policy.lifecycle.next_step import ClusterObservation, ClusterStep, next_cluster_step

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

LIMIT = 300.0
STATUS = QueueStatus("Resources", position=3)
NO_HOST = Handle(engine="slurm", cluster="c1")
ONE_HOST = replace(NO_HOST, hosts=(HostHandle(host="algo-1", data={}),))

news = st.sampled_from([STATUS, QueueStatus("Priority"), NO_HOST, ONE_HOST])


def a_launching_job() -> Job:
    why = Why(start="cold", sentence="Cold: there was no warm pool.", notes=("a note",))
    return transitions.advance(a_job(why=why, cluster="c1"), SecondaryStatus.STARTING, NOW)


@given(st.lists(st.tuples(st.floats(0, 1e5), news), max_size=8))
def test_the_limit_counts_from_the_launch_or_from_the_end_of_the_last_wait(told: list[tuple[float, object]]) -> None:
    now, timer, counts_from = NOW, launch.LaunchTimer(NOW), NOW
    waits = False
    for seconds, each in told:
        now += seconds
        timer = launch.extend_launch(timer, each, now)  # type: ignore[arg-type]
        if isinstance(each, QueueStatus):
            waits = True
        elif waits:
            waits, counts_from = False, now
        left = timer.seconds_left(now, LIMIT)
        assert left is None if waits else left == max(0.0, counts_from + LIMIT - now)


def test_a_handle_ends_a_wait_unless_it_only_names_what_waits_across_a_restart() -> None:
    waiting, waited = a_cluster(waiting=STATUS), launch.LaunchTimer(NOW, waits=True)
    assert launch.is_wait_over(waited, waiting, NO_HOST)
    assert not launch.is_wait_over(launch.LaunchTimer(NOW), waiting, NO_HOST)
    assert launch.is_wait_over(launch.LaunchTimer(NOW), waiting, ONE_HOST)
    assert not launch.is_wait_over(waited, a_cluster(), ONE_HOST)


@pytest.mark.parametrize("handle", [None, NO_HOST, ONE_HOST])
@pytest.mark.parametrize("found", [True, False, None])
@pytest.mark.parametrize("is_late", [True, False])
def test_a_launch_is_given_up_only_where_the_engine_says_what_became_of_it(
    handle: Handle | None, found: bool | None, is_late: bool
) -> None:
    step = launch.next_launch_step(a_cluster(handle=handle), found=found, is_late=is_late)
    if found is None:
        assert step is launch.LaunchStep.WAIT
    elif is_late:
        assert step is launch.LaunchStep.CONCLUDE
    elif found:
        assert step is launch.LaunchStep.GO_ON
    else:
        assert step is (launch.LaunchStep.WAIT if handle is None else launch.LaunchStep.CONCLUDE)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (QueueStatus("Resources"), "Waiting at the engine slurm: Resources."),
        (QueueStatus(""), "Waiting at the engine slurm."),
        (QueueStatus("Priority.", 1), "Waiting at the engine slurm: Priority, position 1."),
        (
            QueueStatus("Resources", 3, NOW + 600),
            "Waiting at the engine slurm: Resources, position 3, expected to start at "
            + time.strftime("%H:%M.", time.localtime(NOW + 600)),
        ),
        (
            QueueStatus("Resources", None, NOW + 86_400),
            "Waiting at the engine slurm: Resources, expected to start at "
            + time.strftime("%Y-%m-%d %H:%M.", time.localtime(NOW + 86_400)),
        ),
    ],
)
def test_a_job_says_what_its_hosts_wait_for(status: QueueStatus, sentence: str) -> None:
    told = launch.record_wait(a_launching_job(), "slurm", status, NOW)
    assert transitions.remark_of(told) == sentence
    assert told.why is not None
    assert told.why.sentence == "Cold: there was no warm pool."
    assert told.why.notes == (sentence, "a note")


def test_a_later_word_takes_the_place_of_the_one_before_and_the_start_says_how_long_it_waited() -> None:
    job = a_launching_job()
    told = launch.record_wait(launch.record_wait(job, "slurm", STATUS, NOW), "slurm", QueueStatus("Priority"), NOW)
    assert told.why is not None
    assert told.why.notes == ("Waiting at the engine slurm: Priority.", "a note")
    over = launch.record_wait_over(told, "slurm", NOW, NOW + 600)
    assert transitions.remark_of(over) == "Launching requested instances."
    assert over.why is not None
    assert over.why.notes == ("It waited 10 min at the engine slurm.", "a note")


def test_a_job_that_joined_a_launch_says_how_long_it_waited_itself() -> None:
    over = launch.record_wait_over(a_launching_job(), "slurm", NOW - 10_800, NOW + 60)
    assert over.why is not None
    assert over.why.notes == ("It waited 1 min at the engine slurm.", "a note")


def test_a_job_that_is_stopping_says_that_and_not_that_its_hosts_come_up() -> None:
    told = launch.record_wait(a_launching_job(), "slurm", STATUS, NOW)
    stopping = transitions.set_terminal_goal(told, DesiredState.STOP, NOW + 1)
    over = launch.record_wait_over(stopping, "slurm", NOW, NOW + 2)
    assert transitions.remark_of(over) == "Stopping the job."


def test_hosts_that_wait_for_a_job_that_should_end_are_given_back_though_the_engine_is_being_asked() -> None:
    waiting = a_cluster(state=ClusterState.PROVISIONING, waiting=STATUS)
    job = a_job(cluster="c1")
    assert not launch.is_unwanted(waiting, job, NOW)
    for goal in (DesiredState.STOP, DesiredState.EXPIRE):
        assert launch.is_unwanted(waiting, replace(job, goal=goal), NOW)
        assert not launch.is_unwanted(replace(waiting, waiting=None), replace(job, goal=goal), NOW)
    asked = ClusterObservation(busy=True, unwanted=True)
    assert next_cluster_step(waiting, asked, NOW) is ClusterStep.WITHDRAW
    assert next_cluster_step(waiting, replace(asked, is_withdrawing=True), NOW) is ClusterStep.NOTHING
    assert next_cluster_step(waiting, replace(asked, unwanted=False), NOW) is ClusterStep.NOTHING
