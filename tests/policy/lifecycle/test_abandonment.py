"""Policy: when a verdict waits no longer for hosts that cannot be reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.records.job import Attempt, Job
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.hosts.unreachable_timeout import extend_unreachable
from jupyter_smx.policy.lifecycle import abandonment, transitions
from jupyter_smx.policy.limits import Limits

MAX_RUN, GRACE = 1_000, 120.0
SPEC = JobSpec(
    kind="train",
    source="pass",
    base_name="train",
    engine="ssh",
    python="",
    instance_groups=(InstanceGroup(),),
    max_run=MAX_RUN,
)


def a_job(*steps: tuple[SecondaryStatus, float], **fields: object) -> Job:
    job = Job(id="1", name="train-1", spec=SPEC, created_at=0.0)
    for step, at in steps:
        job = transitions.advance(job, step, at)
    return replace(job, **fields)  # type: ignore[arg-type]  # of a dict


BEFORE = Attempt(number=1, cluster="c", reason="", ended_at=9.0, ran_seconds=400.0)
STARTING = (SecondaryStatus.STARTING, 10.0)
TRAINING = (SecondaryStatus.TRAINING, 100.0)


@pytest.mark.parametrize(
    ("job", "end"),
    [
        (a_job(STARTING, TRAINING), 100.0 + MAX_RUN + GRACE),
        (a_job(STARTING), 10.0 + MAX_RUN + GRACE),
        (a_job(STARTING, TRAINING, counted_from=150.0), 150.0 + MAX_RUN + GRACE),
        (
            a_job(
                STARTING,
                TRAINING,
                attempts=(Attempt(number=1, cluster="c", reason="", ended_at=9.0, ran_seconds=400.0),),
            ),
            100.0 + MAX_RUN - 400 + GRACE,
        ),
    ],
)
def test_code_should_have_ended_when_its_time_and_the_grace_are_over(job: Job, end: float) -> None:
    assert abandonment.latest_end(job, GRACE) == end
    assert not abandonment.can_give_up(job, end - 1, GRACE)
    assert abandonment.can_give_up(job, end, GRACE)


@given(now=st.floats(0, 10_000), goal=st.sampled_from([DesiredState.STOP, DesiredState.EXPIRE]))
def test_a_stop_waits_for_no_proof(now: float, goal: DesiredState) -> None:
    assert abandonment.can_give_up(a_job(STARTING, TRAINING, goal=goal), now, GRACE)


@given(waited=st.floats(0, 10_000))
def test_only_an_abandoned_stop_is_too_long_at_once(waited: float) -> None:
    limits = Limits(grace=GRACE)
    stopped = a_job(STARTING, TRAINING, goal=DesiredState.STOP)
    period = extend_unreachable(None, stopped, 0.0)
    assert extend_unreachable(period, stopped, waited).is_expired(waited, limits) == (waited > GRACE)
    assert extend_unreachable(period, transitions.abandon(stopped), waited).is_expired(waited, limits)
    running = replace(transitions.abandon(stopped), goal=DesiredState.RUN)
    assert extend_unreachable(None, running, 0.0).is_expired(waited, limits) == (waited > limits.unreachable_limit)
