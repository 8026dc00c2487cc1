"""Whose end explains a job's: what we ended ourselves explains nothing, and its order among the hosts is no reason."""

from __future__ import annotations

import itertools

import pytest

from jupyter_smx.model.records.job import HostEnd, Job, RemoteException, failing_host
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

SIGTERM = RemoteException(type="SignalException", message="got signal: 15", traceback="")
PEER = RemoteException(type="RuntimeError", message="Connection closed by peer", traceback="")

LOST = HostEnd(host="lost", cause="host", failure="Host algo-2 was lost.")
MEMORY = HostEnd(host="memory", cause="memory", signal=9)
RAISED = HostEnd(host="raised", cause="exit", exit_code=1, exception=PEER)
CRASHED = HostEnd(host="crashed", cause="signal", signal=11)
EXITED = HostEnd(host="exited", cause="exit", exit_code=3)
GOOD = HostEnd(host="good", cause="exit", exit_code=0)
TOLD = HostEnd(host="told", cause="stopped", signal=15)
TOLD_AND_RAISED = HostEnd(host="told", cause="stopped", exit_code=1, exception=SIGTERM)
LATE = HostEnd(host="late", cause="max_runtime", signal=9)

BY_BLAME = (LOST, MEMORY, RAISED, CRASHED, EXITED, GOOD, TOLD_AND_RAISED)


def test_nobody_is_guilty_where_nobody_was() -> None:
    assert failing_host(()) is None


@pytest.mark.parametrize("first", range(len(BY_BLAME)))
def test_blame_has_one_order_whatever_that_of_the_hosts(first: int) -> None:
    ends = BY_BLAME[first:]
    assert {failing_host(mixed) for mixed in itertools.permutations(ends[:4])} == {ends[0]}


@pytest.mark.parametrize("ours", [TOLD, TOLD_AND_RAISED, LATE])
@pytest.mark.parametrize("own", [LOST, MEMORY, RAISED, CRASHED, EXITED, GOOD])
def test_what_we_ended_explains_nothing(own: HostEnd, ours: HostEnd) -> None:
    assert failing_host((ours, own)) is own
    assert failing_host((own, ours)) is own


@pytest.mark.parametrize(
    ("ends", "kind"), [((TOLD_AND_RAISED, MEMORY), "out of memory"), ((TOLD_AND_RAISED, RAISED), "RuntimeError")]
)
def test_lists_show_the_exception_of_the_host_that_failed(ends: tuple[HostEnd, ...], kind: str) -> None:
    spec = JobSpec(kind="train", source="pass")
    job = Job(id="a" * 12, name="train-aaaaaa", spec=spec, state=SecondaryStatus.FAILED, hosts=ends)
    assert summary_of(job).failure_type == kind
