from __future__ import annotations

from typing import Any

import pytest

from jupyter_smx.cli import conventions
from jupyter_smx.model import errors
from jupyter_smx.model.records.job import HostEnd, Job, RemoteException
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

EXCEPTION = RemoteException(type="KeyError", message="'x'", traceback="")


def job(state: SecondaryStatus, *hosts: dict[str, Any]) -> Job:
    ends = tuple(HostEnd(**{"host": f"algo-{number}", "cause": "exit", **end}) for number, end in enumerate(hosts, 1))
    return Job(id="ab" * 8, name="job-abab", spec=JobSpec(kind="train", source="pass"), state=state, hosts=ends)


@pytest.mark.parametrize(
    ("state", "hosts", "code"),
    [
        (SecondaryStatus.COMPLETED, [{"exit_code": 0}], 0),
        (SecondaryStatus.STOPPED, [{"signal": 15, "cause": "stopped"}], 3),
        (SecondaryStatus.MAX_RUNTIME_EXCEEDED, [{"signal": 9, "cause": "max_runtime"}], 3),
        (SecondaryStatus.FAILED, [{"exit_code": 7}], 7),
        (SecondaryStatus.FAILED, [{"exit_code": 255}], 255),
        (SecondaryStatus.FAILED, [{"exit_code": 1, "exception": EXCEPTION}], 1),
        (SecondaryStatus.FAILED, [{"signal": 9, "cause": "memory"}], 137),
        (SecondaryStatus.FAILED, [{"signal": 11, "cause": "signal"}], 139),
        (SecondaryStatus.FAILED, [{"exit_code": 0}, {"exit_code": 5}], 5),
        (SecondaryStatus.FAILED, [{"signal": 15, "cause": "stopped"}, {"exit_code": 3}], 3),
        (SecondaryStatus.FAILED, [{"signal": 9, "cause": "max_runtime"}, {"exit_code": 3}], 3),
        (SecondaryStatus.FAILED, [{"exit_code": 0}], 1),
        (SecondaryStatus.FAILED, [{"exit_code": 256}], 1),
        (SecondaryStatus.FAILED, [], 1),
    ],
)
def test_a_job_ends_the_command_with_its_own_code(state: SecondaryStatus, hosts: list[Any], code: int) -> None:
    assert conventions.job_exit_code(job(state, *hosts)) == code


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ValidationError, 2),
        (errors.UnavailableError, 4),
        (errors.ResourceNotFoundError, 1),
        (errors.ResourceInUseError, 1),
        (errors.ResourceLimitError, 1),
        (errors.RefusedError, 1),
        (errors.SmxError, 1),
    ],
)
def test_an_error_ends_the_command_with_the_code_of_its_kind(kind: type[errors.SmxError], code: int) -> None:
    assert conventions.error_exit_code(kind("no")) == code
