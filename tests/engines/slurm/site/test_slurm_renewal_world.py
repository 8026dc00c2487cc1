"""``renew=true`` on a cluster: the pool goes on after the time of its allocation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_controller import SlurmControllerWorld

pytestmark = [pytest.mark.heavy("slurm"), pytest.mark.timeout(400)]
ALLOCATION = 180.0
"""Seconds: Slurm counts minutes, and may give a notice a minute early."""
CONFIGURATION = f"""\
c.SlurmEngine.max_allocation = {ALLOCATION}
c.SlurmEngine.notice_time = 10.0
c.SlurmEngine.observe_interval = 2.0
c.SlurmEngine.exclusive = True
"""
OTHERS = "sbatch --parsable --nodes=2 --exclusive --time=30 --output=/dev/null --wrap='sleep 1800'"


def test_the_next_cell_after_the_end_of_an_allocation_starts_warm_in_the_next_one(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure(CONFIGURATION)
    renewed = {"renew": "true"}
    slurm_controller.run(keep_alive=900, engine_options=renewed)
    first = slurm_controller.job_id()
    (old,) = slurm_controller.pools()
    end = old.allocation_ends_at
    assert end is not None
    assert old.expires_at is not None
    assert old.expires_at > end, "it is kept beyond its allocation"

    def has_followed() -> bool:
        return [pool.id for pool in slurm_controller.pools() if pool.state == "Available"] not in ([], [old.id])

    eventually_blocking(has_followed, "another pool continues it", within=ALLOCATION)
    assert time.time() < end, "without a gap"
    eventually_blocking(lambda: time.time() > end, "the time of the first allocation is over", within=ALLOCATION)
    job = slurm_controller.run(keep_alive=900, engine_options=renewed)
    assert job.why().startswith("Warm")
    assert slurm_controller.job_id() != first
    (pool,) = slurm_controller.pools()
    assert pool.expires_at is not None


@pytest.fixture
def others(slurm_controller: SlurmControllerWorld) -> Iterator[None]:
    """Leave one node free while a test runs."""
    slurm = slurm_controller.slurm
    job = slurm.run(OTHERS).strip()
    eventually_blocking(lambda: slurm.run(f"squeue --noheader --jobs={job} --format=%t").strip() == "R", "it runs")
    yield
    slurm.run(f"scancel {job}")


@pytest.mark.usefixtures("others")
def test_what_slurm_grants_late_is_taken_by_the_job_that_comes_before(
    slurm_controller: SlurmControllerWorld, configure: Callable[[str], None]
) -> None:
    configure(CONFIGURATION)
    slurm = slurm_controller.slurm
    renewed = {"renew": "true"}
    slurm_controller.run(keep_alive=900, engine_options=renewed)
    (old,) = slurm_controller.pools()

    def waits() -> list[str]:
        return [pool.id for pool in slurm_controller.pools() if pool.state == "Provisioning"]

    def queued() -> str:
        return slurm.run("squeue --noheader --states=PENDING --format=%A").strip()

    eventually_blocking(lambda: bool(waits() and queued()), "the next allocation is in the queue", within=ALLOCATION)
    (successor,), job = waits(), queued()
    slurm.run(f"scontrol hold {job}", root=True)
    eventually_blocking(
        lambda: [pool.id for pool in slurm_controller.pools()] == [successor],
        "the first one is over",
        within=ALLOCATION,
    )
    ran = slurm_controller.submit(keep_alive=900, engine_options=renewed)
    ran.until(lambda seen: "Waiting at the engine slurm" in seen.transitions[-1].status_message, "it waits")
    slurm.run(f"scontrol release {job}", root=True)
    record = ran.wait()
    assert record.state.value == "Completed", record.failure_reason
    assert record.cluster == successor
    assert old.id != successor
    assert len({*slurm_controller.submissions()}) == 2
