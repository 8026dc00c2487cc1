"""What things cost: the worked examples of the price list, and what is not known."""

from __future__ import annotations

import pytest
from draws import NOW, a_job, a_spec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.results.progress import StepPace
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType, catalogue
from jupyter_smx.policy.accounting import price

KNOWN = catalogue()
PRICED = sorted(name for name, kind in KNOWN.items() if kind.price_per_hour is not None)


def of(*rows: tuple[str, int]) -> tuple[InstanceGroup, ...]:
    return tuple(InstanceGroup(name=f"g{i}", instance_type=kind, instance_count=n) for i, (kind, n) in enumerate(rows))


@pytest.mark.parametrize(
    ("rows", "per_hour"),
    [
        ([("ml.p4d.24xlarge", 1)], 37.688),
        ([("ml.p4d.24xlarge", 1), ("ml.c5.18xlarge", 2)], 45.032),
        ([("ml.p3.2xlarge", 1), ("ml.c5.9xlarge", 1)], 5.661),
        ([("local", 4)], 0.0),
    ],
)
def test_an_hour_of_mixed_hosts_costs_the_sum(rows: list[tuple[str, int]], per_hour: float) -> None:
    assert price.rate(of(*rows), KNOWN) == pytest.approx(per_hour)


@pytest.mark.parametrize(
    ("rows", "seconds", "dollars"),
    [
        ([("ml.p4d.24xlarge", 1)], 0.192, 0.00201),
        ([("ml.p4d.24xlarge", 1), ("ml.c5.18xlarge", 2)], 0.086, 0.00108),
        ([("ml.p3.2xlarge", 1)], 1.193, 0.001268),
        ([("ml.p3.2xlarge", 1), ("ml.c5.9xlarge", 1)], 0.184, 0.000289),
    ],
)
def test_a_training_step_costs_what_the_worked_examples_say(
    rows: list[tuple[str, int]], seconds: float, dollars: float
) -> None:
    assert price.cost(of(*rows), seconds, KNOWN) == pytest.approx(dollars, rel=5e-3)


@pytest.mark.parametrize(
    ("alone", "fed", "saves"),
    [
        (([("ml.p4d.24xlarge", 1)], 0.192), ([("ml.p4d.24xlarge", 1), ("ml.c5.18xlarge", 2)], 0.086), 46),
        (([("ml.p3.2xlarge", 1)], 1.193), ([("ml.p3.2xlarge", 1), ("ml.c5.9xlarge", 1)], 0.184), 77),
    ],
)
def test_a_group_that_feeds_another_saves_what_was_published(
    alone: tuple[list[tuple[str, int]], float], fed: tuple[list[tuple[str, int]], float], saves: int
) -> None:
    before, after = (price.cost_per_step(of(*rows), seconds, KNOWN) for rows, seconds in (alone, fed))
    assert before is not None
    assert after is not None
    assert round(100 * (1 - after / before)) == saves


def test_the_parts_of_the_published_sums_are_the_prices_of_the_catalogue() -> None:
    rates = {name: KNOWN[f"ml.{name}"].price_per_hour or 0 for name in ("c5.18xlarge", "c5.9xlarge", "p3.2xlarge")}
    assert rates["c5.18xlarge"] == pytest.approx((45.032 - 37.688) / 2)
    assert rates["c5.18xlarge"] == pytest.approx(2 * rates["c5.9xlarge"])
    assert rates["c5.9xlarge"] == pytest.approx(5.661 - rates["p3.2xlarge"])


def test_every_price_says_where_it_is_from_and_none_is_made_up() -> None:
    for kind in KNOWN.values():
        assert (kind.source != "") is (kind.price_per_hour is not None), kind.name
        assert kind.hardware_source, kind.name
    given = {name for name, kind in KNOWN.items() if "AWS post" in kind.source}
    assert given == {"ml.p4d.24xlarge", "ml.p3.2xlarge", "ml.c5.18xlarge", "ml.c5.9xlarge"}


def test_a_bill_has_the_price_of_a_step_where_the_job_counts_them() -> None:
    spec = a_spec(instance_groups=of(("ml.p4d.24xlarge", 1), ("ml.c5.18xlarge", 2)))
    job = a_job(spec=spec, started_at=NOW, pace=StepPace(steps=500, seconds=0.086))
    bill = price.bill(job, KNOWN, NOW + 60)
    assert (bill.steps, bill.step_seconds) == (500, 0.086)
    assert bill.cost_per_step == pytest.approx(0.00108, rel=5e-3)
    live = price.bill(job, KNOWN, NOW + 60, StepPace(steps=510, seconds=0.172))
    assert live.cost_per_step == pytest.approx(2 * bill.cost_per_step)
    unknown = price.bill(a_job(spec=a_spec(instance_groups=of(("new", 1))), pace=job.pace), KNOWN, NOW)
    assert (unknown.step_seconds, unknown.cost_per_step) == (0.086, None)
    assert price.bill(a_job(spec=spec), KNOWN, NOW).cost_per_step is None


def test_a_type_without_a_price_makes_the_sum_unknown_and_never_zero() -> None:
    known = {**KNOWN, "new": InstanceType(name="new", vcpus=1, memory_gib=1)}
    assert price.cost(of(("new", 1), ("local", 1)), 10, known) is None
    assert price.cost(of(("unheard-of", 1)), 10, known) is None


def test_a_job_is_billed_from_the_start_of_its_hosts_and_its_pool_apart() -> None:
    spec = a_spec(instance_groups=of(("ml.m5.large", 2)))
    job = a_job(spec=spec, created_at=NOW, started_at=NOW + 100, ended_at=NOW + 3_700)
    assert price.job_cost(job, KNOWN, NOW + 9_999) == pytest.approx(2 * 0.115)
    pool = WarmPool(status=WarmPoolStatus.REUSED, resource_retained_billable_seconds=1_800)
    kept = a_job(spec=spec, started_at=NOW + 100, ended_at=NOW + 3_700, warm_pool=pool)
    assert price.job_cost(kept, KNOWN, NOW) == pytest.approx(2 * 0.115 * 1.5)


def test_a_bill_has_the_lines_that_make_its_sum() -> None:
    pool = WarmPool(status=WarmPoolStatus.REUSED, resource_retained_billable_seconds=1_800)
    spec = a_spec(instance_groups=of(("ml.m5.large", 2)))
    job = a_job(spec=spec, started_at=NOW, ended_at=NOW + 3_600, warm_pool=pool)
    bill = price.bill(job, KNOWN, NOW)
    assert (bill.price_per_hour, bill.billable_seconds, bill.retained_seconds) == (pytest.approx(0.23), 3_600, 1_800)
    assert bill.cost == pytest.approx(0.23 * 1.5)
    unknown = price.bill(a_job(spec=a_spec(instance_groups=of(("new", 1)))), KNOWN, NOW)
    assert (unknown.price_per_hour, unknown.cost) == (None, None)


def test_waiting_for_room_costs_nothing_and_a_running_job_costs_so_far() -> None:
    assert price.job_cost(a_job(created_at=NOW - 500), KNOWN, NOW) == 0
    spec = a_spec(instance_groups=of(("ml.m5.large", 1)))
    assert price.job_cost(a_job(spec=spec, started_at=NOW - 3_600), KNOWN, NOW) == pytest.approx(0.115)


@given(st.integers(1, 20), st.floats(min_value=0, max_value=1e6), st.sampled_from(PRICED))
def test_twice_the_hosts_cost_twice(count: int, seconds: float, kind: str) -> None:
    one, many = price.cost(of((kind, 1)), seconds, KNOWN), price.cost(of((kind, count)), seconds, KNOWN)
    assert one is not None
    assert many == pytest.approx(one * count)
