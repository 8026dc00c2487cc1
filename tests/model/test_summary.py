"""What lists say of a job: why it waits for others, and once it began what its step says."""

from __future__ import annotations

import pytest

from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.start_reason import Why
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

AGAIN = "Attempt 2 of 3, after InternalServerError: Host algo-1 was lost."
QUEUED = Why(start="queued", sentence="Queued, number 1 in line.")


@pytest.mark.parametrize(
    ("state", "said", "message"),
    [
        (SecondaryStatus.PENDING, "Waiting for an instance.", QUEUED.sentence),
        (SecondaryStatus.STARTING, AGAIN, AGAIN),
    ],
)
def test_a_job_that_came_after_another_says_that_it_begins_again_and_not_for_whom_it_waited(
    state: SecondaryStatus, said: str, message: str
) -> None:
    spec = JobSpec(kind="train", source="pass", base_name="train", after=("b" * 12,), retries=2)
    steps = (Transition(status=state, start_time=1.0, status_message=said),)
    job = Job(id="a" * 12, name="train-aaaaaa", spec=spec, state=state, transitions=steps, why=QUEUED)
    assert summary_of(job).message == message


@pytest.mark.parametrize("spot", [True, False])
def test_a_list_knows_whose_hosts_may_be_taken_away(spot: bool) -> None:
    spec = JobSpec(kind="train", source="pass", base_name="train", spot=spot)
    assert summary_of(Job(id="a" * 12, name="train-aaaaaa", spec=spec)).spot is spot
