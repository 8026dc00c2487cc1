"""``renew=true``: when the next allocation is due, and for how long it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_slurm import END, FakeSlurm
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from slurm_requests import NAME, host, request
from test_slurm_engine import acquire, engine_of

from jupyter_smx.engines.slurm import allocations, job_options, submission
from jupyter_smx.engines.slurm.submission import AllocationTime
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest

RENEWED = {"renew": "true"}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setattr(allocations, "FIRST_DELAYS", (0.0,) * 10_000)
    return FakeSlurm()


def next_request() -> ClusterRequest:
    """Give what the controller requests to continue the pool of ``f00d``."""
    return replace(request(host(options=RENEWED), options=RENEWED, max_run=0, keep_alive=0), cluster="beef")


def times(slurm: FakeSlurm) -> list[str]:
    return [next(word for word in job.words if word.startswith("--time=")) for job in slurm.jobs]


async def test_a_job_that_names_it_has_a_next_allocation_in_its_handle(slurm: FakeSlurm, tmp_path: Path) -> None:
    engine = engine_of(slurm, tmp_path)
    handle = await acquire(engine, request(host(options=RENEWED), options=RENEWED))
    assert handle.renewal is not None
    assert (handle.renewal.at, handle.renewal.seconds) == (END - 60 - 120 - 600, 3_600 + 600 + 180)
    assert await engine_of(slurm, tmp_path).find("f00d") == handle


async def test_the_configuration_can_name_it_for_all_and_without_it_there_is_none(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    assert (await acquire(engine_of(slurm, tmp_path / "a"))).renewal is None
    engine = engine_of(slurm, tmp_path / "b", renew=True, renew_before=60.0)
    renewal = (await acquire(engine)).renewal
    assert renewal is not None
    assert renewal.at == END - 60 - 120 - 60


async def test_the_next_allocation_is_asked_for_the_time_of_the_one_before(slurm: FakeSlurm, tmp_path: Path) -> None:
    engine = engine_of(slurm, tmp_path)
    await acquire(engine, request(host(options=RENEWED), options=RENEWED))
    after = await acquire(engine, replace(next_request(), renewal_of="f00d"))
    assert times(slurm) == ["--time=0-01:13:00"] * 2
    assert after.renewal is not None
    assert after.renewal.seconds == 3_600 + 600 + 180


async def test_without_the_record_of_the_one_before_it_is_planned_anew(slurm: FakeSlurm, tmp_path: Path) -> None:
    await acquire(engine_of(slurm, tmp_path), replace(next_request(), renewal_of="gone", keep_alive=600))
    assert times(slurm) == ["--time=0-00:13:00"]


@given(st.floats(1, 1e6), st.floats(0, 1e5), st.floats(0, 1e5))
def test_the_next_allocation_is_due_before_the_notice_and_not_in_the_first_half(
    seconds: float, notice: float, lead: float
) -> None:
    plan = submission.plan_renewal(1e9, seconds, notice, lead, reserve=180.0)
    assert plan is not None
    assert plan.seconds == seconds
    assert 1e9 - seconds / 2 - 1e-3 <= plan.at <= 1e9
    if notice + lead <= seconds / 2:
        assert plan.at <= 1e9 - notice


@pytest.mark.parametrize(("ends_at", "seconds"), [(None, 600.0), (1e9, 0.0)])
def test_an_allocation_without_an_end_or_of_an_earlier_version_has_no_next_one(
    ends_at: float | None, seconds: float
) -> None:
    assert submission.plan_renewal(ends_at, seconds, 120.0, 600.0, reserve=180.0) is None


@pytest.mark.parametrize(
    ("options", "traits", "longest"),
    [
        ({}, {}, 86_400.0 - 180.0),
        ({}, {"max_allocation": 7_200.0}, 7_020.0),
        ({"time": "1h"}, {"max_allocation": 7_200.0}, 3_420.0),
    ],
)
async def test_it_has_time_for_jobs_as_long_as_the_first_one_and_its_keep_alive(
    slurm: FakeSlurm, tmp_path: Path, options: dict[str, str], traits: dict[str, float], longest: float
) -> None:
    wish = {**RENEWED, **options}
    renewal = (await acquire(engine_of(slurm, tmp_path, **traits), request(host(options=wish), options=wish))).renewal
    assert renewal is not None
    assert (renewal.max_run, renewal.longest_run) == (3_600.0 - 180.0 if options else 3_600.0 + 600.0, longest)


def test_the_time_of_the_one_before_counts_more_than_the_time_of_a_request() -> None:
    job = submission.plan_submission(request(options={"time": "2h"}), {}, AllocationTime(renewed=900.0), NAME)
    assert job.seconds == 900.0


def test_the_option_is_true_or_false() -> None:
    assert job_options.is_renewed(RENEWED)
    assert not job_options.is_renewed({})
    with pytest.raises(RefusedError, match="renew"):
        job_options.check({"renew": "perhaps"})
