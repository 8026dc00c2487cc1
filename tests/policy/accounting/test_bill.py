"""One table of numbers: whatever became of a job, its groups, its seconds, its savings and its sum agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from draws import NOW, a_job, a_spec, group_tuples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.kernel.handles.cost import Cost, cost_page, format_savings
from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType, catalogue
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.model.text import format_usd
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.lifecycle import transitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job

S = SecondaryStatus
KNOWN = catalogue()
WITHOUT_ONE = {**KNOWN, "ml.m5.large": InstanceType(name="ml.m5.large", vcpus=2, memory_gib=8)}
HELPED = (
    InstanceGroup(name="data", instance_type="ml.c5.9xlarge", instance_count=2, until="dnn"),
    InstanceGroup(name="dnn", instance_type="ml.p3.2xlarge"),
)
seconds = st.floats(min_value=0, max_value=1e6)
runs = st.lists(st.tuples(seconds, st.booleans()), max_size=4)
LAST = (
    "runs",
    "is taken",
    "taken, stopped",
    "taken, expired",
    "taken, out of time",
    "taken, completed",
    "taken, failed",
    "completed",
    "failed",
)


@st.composite
def helped_groups(draw: st.DrawFn) -> tuple[InstanceGroup, ...]:
    """Draw groups of which the first may help the last one."""
    first, *others = draw(group_tuples)
    return (replace(first, until=others[-1].name) if others and draw(st.booleans()) else first, *others)


def lived(job: Job, before: Sequence[tuple[float, bool]], took: float, last: str) -> tuple[Job, float]:
    """Let a job have runs that began again, as they were interrupted or not, and one more; gives it and the time."""
    now = NOW
    for ran, interrupted in before:
        now += 7
        job = transitions.advance(transitions.advance(job, S.STARTING, now), S.TRAINING, now)
        job = transitions.interrupt(job, now + ran / 2) if interrupted else job
        now += ran
        job = transitions.start_next_attempt(job, "a reason", (), now, interrupted=interrupted)
    now += 7
    job = transitions.advance(transitions.advance(job, S.STARTING, now), S.TRAINING, now)
    if "taken" in last:
        job = transitions.interrupt(job, now + took / 2)
    now += took
    ends = {"stopped": S.STOPPED, "expired": S.MAX_WAIT_TIME_EXCEEDED, "time": S.MAX_RUNTIME_EXCEEDED}
    final = {**ends, "completed": S.COMPLETED, "failed": S.FAILED}.get(last.rpartition(" ")[2])
    return (job if final is None else transitions.advance(job, final, now)), now


def pool(retained: int) -> WarmPool:
    return WarmPool(status=WarmPoolStatus.REUSED, resource_retained_billable_seconds=retained)


@given(
    groups=helped_groups(),
    before=runs,
    took=seconds,
    last=st.sampled_from(LAST),
    retained=st.integers(0, 100_000),
    known=st.sampled_from([KNOWN, WITHOUT_ONE]),
)
def test_the_numbers_of_a_bill_agree(
    groups: tuple[InstanceGroup, ...],
    before: list[tuple[float, bool]],
    took: float,
    last: str,
    retained: int,
    known: dict[str, InstanceType],
) -> None:
    spec = a_spec(instance_groups=groups, spot=True)
    job, now = lived(a_job(spec=spec, cluster="c1", lease=1), before, took, last)
    job = replace(job, warm_pool=pool(retained))
    bill = price.bill(job, known, now)
    # Seconds: everything that ran, and of that everything that was not taken away.
    lost = sum(ran for ran, interrupted in before if interrupted) + (
        took if "taken" in last and not last.endswith(("completed", "failed")) else 0.0
    )
    everything = sum(ran for ran, _ in before) + took
    assert bill.training_seconds == pytest.approx(everything, abs=1e-3)
    assert bill.billable_seconds == pytest.approx(everything - lost, abs=1e-3)
    assert 0 <= bill.billable_seconds <= bill.training_seconds
    expected = None if bill.training_seconds == 0 else 100 * (1 - bill.billable_seconds / bill.training_seconds)
    assert bill.savings() == (None if expected is None else pytest.approx(expected))
    # The groups are the job.
    assert [(part.name, part.instance_count, part.until) for part in bill.groups] == [
        (group.name, group.instance_count, group.until) for group in groups
    ]
    unknown = [part for part in bill.groups if part.cost is None or part.price_per_hour is None]
    assert bool(unknown) == (known is WITHOUT_ONE and any(g.instance_type == "ml.m5.large" for g in groups))
    assert bill.cost == price.job_cost(job, known, now)
    if unknown:
        assert (bill.cost, bill.price_per_hour) == (None, None)
        return
    assert bill.price_per_hour == pytest.approx(sum(part.price_per_hour or 0.0 for part in bill.groups))
    assert bill.cost == pytest.approx(sum(part.cost or 0.0 for part in bill.groups))
    assert bill.price_per_hour is not None
    assert bill.cost == pytest.approx(bill.price_per_hour * (bill.billable_seconds + retained) / 3_600)


@given(before=runs, took=seconds, last=st.sampled_from(LAST), hosts=st.integers(1, 5))
def test_the_lines_at_the_end_of_a_spot_job_agree(
    before: list[tuple[float, bool]], took: float, last: str, hosts: int
) -> None:
    spec = a_spec(instance_groups=(InstanceGroup(instance_count=hosts),), spot=True)
    job, now = lived(a_job(spec=spec, cluster="c1", lease=1), before, took, last)
    bill = price.bill(job, KNOWN, now)
    said = dict(line.split(": ") for line in format_savings(bill, spec.instance_count()).splitlines())
    assert int(said["Billable seconds"]) <= int(said["Training seconds"]) == round(bill.training_seconds * hosts)


@pytest.mark.parametrize(
    ("last", "billable", "savings"),
    [
        ("taken, stopped", 0.0, 100.0),
        ("taken, expired", 0.0, 100.0),
        ("taken, out of time", 0.0, 100.0),
        ("is taken", 0.0, 100.0),
        ("taken, completed", 3_600.0, 0.0),
        ("taken, failed", 3_600.0, 0.0),
        ("completed", 3_600.0, 0.0),
    ],
)
def test_a_last_run_that_lost_its_hosts_is_not_charged_unless_its_code_ended_by_itself(
    last: str, billable: float, savings: float
) -> None:
    job, now = lived(a_job(spec=a_spec(spot=True), cluster="c1", lease=1), [], 3_600.0, last)
    bill = price.bill(job, KNOWN, now)
    assert (bill.training_seconds, bill.billable_seconds, bill.savings()) == (3_600.0, billable, savings)


def test_an_interruption_of_a_run_before_says_nothing_of_the_one_at_hand() -> None:
    job, now = lived(a_job(spec=a_spec(spot=True), cluster="c1", lease=1), [(100.0, True)], 50.0, "runs")
    assert price.billable_seconds(job, now) == 50.0
    stopped = transitions.advance(replace(job, goal=DesiredState.STOP), S.STOPPED, now)
    assert price.billable_seconds(stopped, now + 9) == 50.0


def page(last: str = "completed", before: Sequence[tuple[float, bool]] = (), **fields: Any) -> list[str]:
    spec = a_spec(instance_groups=HELPED, spot=True)
    job, now = lived(a_job(spec=spec, cluster="c1", lease=1), before, 3_600.0, last)
    bill = price.bill(replace(job, **fields), KNOWN, now)
    assert bill.cost is not None
    text, _html = cost_page("train-1", bill)
    lines = text.splitlines()
    # The handle, the page of the magic and that of the command line have one number.
    assert lines[0] == f"train-1: {Cost(bill.cost, bill)!r}" == f"train-1: {format_usd(bill.cost)}"
    return lines


def test_the_page_has_a_line_for_each_group_and_for_what_spot_saved() -> None:
    assert page(before=[(10_800.0, True)], warm_pool=pool(1_800)) == [
        "train-1: $11.25",
        "  price: $7.50 per hour for all hosts",
        "  group data: ml.c5.9xlarge × 2, $3.67 per hour, $5.51, helps dnn",
        "  group dnn: ml.p3.2xlarge × 1, $3.83 per hour, $5.74",
        "  running time: 4 h, 75.0 % saved by managed spot",
        "  billed time: 1 h",
        "  idle time of pool: 30 min",
    ]


def test_the_page_of_a_job_that_nobody_interrupted_does_not_speak_of_savings() -> None:
    assert [line for line in page() if "saved" in line or "idle" in line] == []


def test_a_group_without_a_price_is_named() -> None:
    spec = a_spec(instance_groups=(InstanceGroup(name="a", instance_type="ml.m5.large"), HELPED[1]))
    text, _ = cost_page("train-1", price.bill(a_job(spec=spec), WITHOUT_ONE, NOW))
    assert "train-1: unknown" in text
    assert "  group a: ml.m5.large × 1, price unknown\n  group dnn: ml.p3.2xlarge × 1, $3.83 per hour, $0.00" in text
