"""What a job costs, wherever it is said: in its record, in lists, on the page of its bill and on its pool's row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.handles.cost import cost_page
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.model.text import format_usd

if TYPE_CHECKING:
    from jupyter_smx.model.results.reports import Bill
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
HOUR = 3_600
GROUPS = (
    InstanceGroup(name="data", instance_type="ml.c5.xlarge", instance_count=2, until="dnn"),
    InstanceGroup(name="dnn", instance_type="ml.p3.2xlarge"),
)
PER_HOUR = 2 * 0.204 + 3.825


def bill_of(sim: Simulation, job: str) -> Bill:
    """Give a job's bill, after seeing that lists, page and groups say the same."""
    record = sim.job(job)
    bill = sim.controller.facade.bill(record)
    assert bill.cost is not None
    assert sim.controller.facade.summary(record).cost == bill.cost
    assert bill.cost == pytest.approx(sum(group.cost or 0.0 for group in bill.groups))
    assert cost_page(record.name, bill)[0].startswith(f"{record.name}: {format_usd(bill.cost)}\n")
    return bill


def test_helpers_spot_and_a_warm_pool_in_one_bill(sim: Simulation) -> None:
    job = sim.submit(instance_groups=GROUPS, spot=True, keep_alive=HOUR)
    sim.pass_time(START + 3 * HOUR)
    sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.pass_time(START + HOUR)
    assert bill_of(sim, job).billable_seconds == pytest.approx(HOUR, abs=1)
    # The leader is done; the helpers are told, and billed as long as the job is.
    dnn = sim.hosts(job)[2]
    sim.call(lambda: dnn.end_run(dnn.runs[job], exit_code=0))
    sim.pass_time(1)
    assert sim.job(job).state is SecondaryStatus.COMPLETED
    assert [end.cause for end in sim.job(job).hosts] == ["drained", "drained", "exit"]
    ran = bill_of(sim, job)
    assert (ran.training_seconds, ran.billable_seconds) == (pytest.approx(4 * HOUR, abs=3), pytest.approx(HOUR, abs=3))
    assert ran.savings() == pytest.approx(75, abs=0.1)
    assert ran.cost == pytest.approx(PER_HOUR, rel=0.001)
    assert [group.cost for group in ran.groups] == [pytest.approx(0.408, rel=0.001), pytest.approx(3.825, rel=0.001)]

    # Its pool stands idle for half an hour, which its row says at once, and the bill when another job takes it.
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    sim.pass_time(HOUR / 2)
    row = sim.controller.live_state.pool_summary(sim.pool(pool.id))
    assert (row.idle_cost, row.price_per_hour) == (pytest.approx(PER_HOUR / 2, rel=0.001), pytest.approx(PER_HOUR))
    assert bill_of(sim, job).retained_seconds == 0
    second = sim.submit(instance_groups=GROUPS, spot=True, keep_alive=0)
    assert sim.start_reason(second).start == "warm"
    kept = bill_of(sim, job)
    assert kept.retained_seconds == pytest.approx(HOUR / 2, abs=2)
    assert kept.cost == pytest.approx(PER_HOUR * 1.5, rel=0.001)
    assert kept.cost - ran.cost == pytest.approx(row.idle_cost, rel=0.002)
    assert bill_of(sim, second).retained_seconds == 0


def test_a_job_that_is_stopped_while_its_hosts_are_taken_back_is_not_billed_for_that_run(sim: Simulation) -> None:
    job = sim.submit(instance_groups=GROUPS, spot=True, max_run=HOUR)
    sim.pass_time(START + HOUR - 10)
    sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.stop(job)
    sim.pass_time(30)
    assert sim.job(job).state is SecondaryStatus.STOPPED
    bill = bill_of(sim, job)
    assert (bill.cost, bill.billable_seconds, bill.savings()) == (0, 0, 100)
    assert bill.training_seconds == pytest.approx(HOUR - 10, abs=2)
