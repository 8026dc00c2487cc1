"""How long hosts that cannot be reached are waited for, as a table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import DesiredState
from jupyter_smx.policy.hosts.unreachable_timeout import UnreachablePeriod, extend_unreachable
from jupyter_smx.policy.limits import Limits

LIMITS = Limits(grace=10.0, unreachable_limit=100.0)
SPEC = JobSpec(
    kind="train",
    source="pass",
    base_name="train",
    engine="local",
    python="python",
    instance_groups=(InstanceGroup(instance_count=1),),
)
JOB = Job(id="1", name="train-1", spec=SPEC, created_at=0.0, modified_at=0.0)


@pytest.mark.parametrize(
    ("silence", "now", "lasts"),
    [
        (UnreachablePeriod(0.0), 100.0, False),
        (UnreachablePeriod(0.0), 100.1, True),
        (UnreachablePeriod(0.0, 50.0), 60.0, False),
        (UnreachablePeriod(0.0, 50.0), 60.1, True),
        (UnreachablePeriod(0.0, 99.0), 100.1, True),
    ],
)
def test_it_is_too_long_after_the_limit_or_the_grace(silence: UnreachablePeriod, now: float, *, lasts: bool) -> None:
    assert silence.is_expired(now, LIMITS) is lasts


def test_it_goes_on_from_where_it_began_and_so_does_the_wish() -> None:
    first = extend_unreachable(None, JOB, 5.0)
    assert first == UnreachablePeriod(5.0)
    stopped = replace(JOB, goal=DesiredState.STOP)
    second = extend_unreachable(first, stopped, 7.0)
    assert second == extend_unreachable(second, stopped, 9.0) == UnreachablePeriod(5.0, 7.0)


@pytest.mark.parametrize(
    "goal", [goal for goal in DesiredState if goal not in (DesiredState.STOP, DesiredState.EXPIRE)]
)
def test_who_comes_back_or_goes_on_is_waited_for(goal: DesiredState) -> None:
    assert extend_unreachable(UnreachablePeriod(5.0, 7.0), replace(JOB, goal=goal), 9.0) == UnreachablePeriod(5.0)
    assert extend_unreachable(UnreachablePeriod(5.0, 7.0), None, 9.0) == UnreachablePeriod(5.0)
