"""What a courier is given of the environment, and what it says when a store refuses."""

from __future__ import annotations

import errno
import ftplib
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.errors import DONE, FULL, REFUSED
from jupyter_smx.agent.stores import retry, upload
from jupyter_smx.agent.stores.worker_environment import worker_environment

if TYPE_CHECKING:
    from pathlib import Path

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
    assert worker_environment(USER, job, is_ours=True, is_the_jobs=False) == expected


OF_CODE = {"PYTHONPATH": "/x", "PYTHONHOME": "/x", "PYTHONOPTIMIZE": "2", "VIRTUAL_ENV": "/x", "LD_PRELOAD": "/x.so"}


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("is_the_jobs", [True, False])
def test_what_is_true_of_one_python_is_told_to_no_other(is_ours: bool, is_the_jobs: bool) -> None:
    inherited = {"PYTHONPATH": "/ours", "CONDA_PREFIX": "/ours", "PATH": "/bin"}
    found = worker_environment(inherited, {**OF_CODE, "A": "b"}, is_ours=is_ours, is_the_jobs=is_the_jobs)
    expected = {"PATH": "/bin", "A": "b"}
    if is_ours:
        expected.update(inherited)
    if is_the_jobs:
        expected.update(OF_CODE)
    assert found == expected


@given(st.dictionaries(st.text(min_size=1), st.text()), st.booleans(), st.booleans())
def test_other_variables_of_the_job_are_all_there(job: dict[str, str], is_ours: bool, is_the_jobs: bool) -> None:
    own = {name: value for name, value in job.items() if not name.startswith("PYTHON")}
    found = worker_environment({"PATH": "/bin"}, own, is_ours=is_ours, is_the_jobs=is_the_jobs)
    assert found == {"PATH": "/bin", **own}


class ClientError(Exception):
    """As botocore tells of a refusal."""

    def __init__(self, code: str, status: int | None = None) -> None:
        super().__init__(f"An error occurred ({code}) when calling the ListObjectsV2 operation: no")
        self.response: dict[str, Any] = {"Error": {"Code": code, "Message": "no"}}
        if status is not None:
            self.response["ResponseMetadata"] = {"HTTPStatusCode": status}


def translated(code: str, kind: type[Exception], status: int | None = None) -> Exception:
    """Give the error that s3fs makes of it, which has the code in its cause alone."""
    error = kind("no")
    error.__cause__ = ClientError(code, status)
    return error


class NoCredentialsError(Exception):
    """As botocore's."""


NO_SUCH_NAME = ftplib.error_perm("553 no such name")  # noqa: S321 - no connection, but what one may say
TOO_MANY = ftplib.error_temp("421 too many connections")  # noqa: S321 - no connection, but what one may say


class AuthenticationException(Exception):  # noqa: N818 - as paramiko's
    """As SFTP tells of a wrong password."""


class HttpError(Exception):
    """As gcsfs', of which the number is ``code``, aiohttp's (``status``) and Azure's (``status_code``)."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"no, {number}")
        setattr(self, name, number)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClientError("ExpiredToken"), "have expired"),
        (translated("ExpiredToken", PermissionError), "have expired"),
        (translated("TokenRefreshRequired", OSError), "have expired"),
        (translated("InvalidAccessKeyId", PermissionError), "rejects these credentials"),
        (translated("SignatureDoesNotMatch", PermissionError), "rejects these credentials"),
        (translated("InvalidToken", OSError), "rejects these credentials"),
        (translated("AccessDenied", PermissionError), "Use credentials that may list and read it"),
        (OSError("Forbidden: bucket/x\nno"), "Use credentials that may list and read it"),
        (HttpError("code", 401), "Use credentials that may list and read it"),
        (HttpError("status", 403), "Use credentials that may list and read it"),
        (translated("KeyTooLongError", OSError, 400), "the store refused the request (no)"),
        (translated("XMinioInvalidObjectName", OSError, 400), "the store refused the request (no)"),
        (HttpError("status_code", 412), "the store refused the request (no, 412)"),
        (AuthenticationException("no"), "Use credentials that may list and read it"),
        (NO_SUCH_NAME, "the store refused the request (553 no such name)"),
        (NoCredentialsError("none"), "this host has no credentials for it"),
    ],
)
def test_who_is_refused_reads_why_and_is_not_tried_again(error: Exception, said: str) -> None:
    text = retry.format_error(error, "s3://bucket/x")
    assert text.startswith("s3://bucket/x: ")
    assert said in text
    assert not retry.is_transient(error)
    if "expired" in said or "know" in said:
        assert "at the start of the controller or warm host" in text
        assert ("AWS_PROFILE" in text) == ("expired" in said)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        TimeoutError(),
        EOFError(),
        TOO_MANY,
        translated("SlowDown", OSError),
        translated("SlowDown", OSError, 503),
        translated("RequestTimeout", TimeoutError, 400),
        translated("BadDigest", OSError, 400),
        translated("ThrottlingException", OSError, 400),
        translated("OperationAborted", OSError, 409),
        HttpError("code", 429),
        HttpError("status", 500),
    ],
)
def test_what_is_nobodys_refusal_may_pass(error: Exception) -> None:
    assert retry.is_transient(error)
    assert "cannot be reached" in retry.format_error(error, "s3://bucket/x")


class Choosy:
    """A bucket that does not like one name."""

    protocol = ("s3",)
    async_impl = True

    def __init__(self) -> None:
        self.has: dict[str, bytes] = {}

    def pipe_file(self, path: str, data: bytes, **_words: str) -> None:
        if path.endswith("/0"):
            raise translated("KeyTooLongError", OSError, 400)
        self.has[path] = data


def test_a_library_that_puts_its_words_over_a_full_disk_hides_it_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(Choosy):
        def get_file(self, _path: str, target: str) -> None:
            raise RuntimeError("it did not go well") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    monkeypatch.setattr(upload.filesystems, "find_filesystem", lambda url, **_words: (Full(), url))
    monkeypatch.setattr(retry.time, "sleep", lambda _seconds: pytest.fail("it is tried again"))
    (found,) = upload.download("s3://bucket/d", [["a", str(tmp_path / "a"), None]])
    assert found.status == FULL


def test_one_name_that_the_store_refuses_keeps_no_other_file_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = Choosy()
    monkeypatch.setattr(upload.filesystems, "find_filesystem", lambda url, **_words: (system, url))
    (tmp_path / "file").write_text("x")
    found = upload.upload("s3://bucket/d", [[str(tmp_path / "file"), str(number), None] for number in range(41)])
    assert [one.status for one in found] == [REFUSED, *[DONE] * 40]
    assert len(system.has) == 40
