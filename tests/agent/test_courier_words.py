"""What a courier is given of the environment, and what it says when a store refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent import tries
from jupyter_smx.agent.courier_environment import courier_environment

USER = {
    "AWS_ACCESS_KEY_ID": "old",
    "AWS_SECRET_ACCESS_KEY": "old",
    "AWS_SESSION_TOKEN": "expired",
    "AWS_REGION": "eu-west-1",
    "HOME": "/home/me",
}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({}, USER),
        ({"A": "b"}, {**USER, "A": "b"}),
        ({"AWS_REGION": "us-east-1"}, {**USER, "AWS_REGION": "us-east-1"}),
        ({"AWS_PROFILE": "p"}, {"AWS_PROFILE": "p", "AWS_REGION": "eu-west-1", "HOME": "/home/me"}),
        ({"AWS_PROFILE": ""}, {**USER, "AWS_PROFILE": ""}),
        (
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"},
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1", "HOME": "/home/me"},
        ),
    ],
)
def test_who_asks_is_taken_from_the_job_as_a_whole_or_not_at_all(job: dict[str, str], expected: dict[str, str]) -> None:
    assert courier_environment(USER, job, is_ours=True, is_the_jobs=False) == expected


OF_CODE = {"PYTHONPATH": "/x", "PYTHONHOME": "/x", "PYTHONOPTIMIZE": "2", "VIRTUAL_ENV": "/x", "LD_PRELOAD": "/x.so"}


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("is_the_jobs", [True, False])
def test_what_is_true_of_one_python_is_told_to_no_other(is_ours: bool, is_the_jobs: bool) -> None:
    inherited = {"PYTHONPATH": "/ours", "CONDA_PREFIX": "/ours", "PATH": "/bin"}
    found = courier_environment(inherited, {**OF_CODE, "A": "b"}, is_ours=is_ours, is_the_jobs=is_the_jobs)
    expected = {"PATH": "/bin", "A": "b"}
    if is_ours:
        expected.update(inherited)
    if is_the_jobs:
        expected.update(OF_CODE)
    assert found == expected


@given(st.dictionaries(st.text(min_size=1), st.text()), st.booleans(), st.booleans())
def test_other_variables_of_the_job_are_all_there(job: dict[str, str], is_ours: bool, is_the_jobs: bool) -> None:
    own = {name: value for name, value in job.items() if not name.startswith("PYTHON")}
    found = courier_environment({"PATH": "/bin"}, own, is_ours=is_ours, is_the_jobs=is_the_jobs)
    assert found == {"PATH": "/bin", **own}


class ClientError(Exception):
    """As botocore tells of a refusal."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling the ListObjectsV2 operation: no")
        self.response: dict[str, Any] = {"Error": {"Code": code, "Message": "no"}}


def translated(code: str, kind: type[Exception]) -> Exception:
    """Give the error that s3fs makes of it, which has the code in its cause alone."""
    error = kind("no")
    error.__cause__ = ClientError(code)
    return error


class NoCredentialsError(Exception):
    """As botocore's."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClientError("ExpiredToken"), "have expired"),
        (translated("ExpiredToken", PermissionError), "have expired"),
        (translated("TokenRefreshRequired", OSError), "have expired"),
        (translated("InvalidAccessKeyId", PermissionError), "does not know these credentials"),
        (translated("SignatureDoesNotMatch", PermissionError), "does not know these credentials"),
        (translated("InvalidToken", OSError), "does not know these credentials"),
        (translated("AccessDenied", PermissionError), "Use credentials that may list and read it"),
        (NoCredentialsError("none"), "there are no credentials for it here"),
    ],
)
def test_who_is_refused_reads_why_and_is_not_tried_again(error: Exception, said: str) -> None:
    text = tries.explained(error, "s3://bucket/x")
    assert text.startswith("s3://bucket/x: ")
    assert said in text
    assert not tries.may_pass(error)
    if "expired" in said or "know" in said:
        assert "as they were when the controller, or a warm host, began" in text
        assert ("AWS_PROFILE" in text) == ("expired" in said)


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), translated("SlowDown", OSError), EOFError()])
def test_what_is_nobodys_refusal_may_pass(error: Exception) -> None:
    assert tries.may_pass(error)
    assert "cannot be reached" in tries.explained(error, "s3://bucket/x")
