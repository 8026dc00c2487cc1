"""What every service of AWS has here: operations by name, their caller, and errors in AWS's form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

Operation = Callable[[dict[str, Any], "Caller"], Awaitable[dict[str, Any]]]
"""An operation gets the members of its input shape and returns those of its output shape.

Times are aware datetimes in both.
"""
WAY_BACK = (
    'To go back to AWS, run `%smx aws off` in a notebook, or `eval "$(jupyter smx aws env --off)"` in a terminal, and '
    "make the client again."
)
"""The end of an error about what is at AWS only."""
REAL_BUCKETS = (
    "To use those of AWS, run `jupyter smx aws stop`, then `jupyter smx aws start --s3 aws`, then `%smx aws on` or "
    '`eval "$(jupyter smx aws env)"` again.'
)
"""The end of an error about a bucket that is not here."""


@dataclass(frozen=True)
class Caller:
    """The client of a request, after its signature was checked."""

    access_key: str
    region: str
    """The third part of the credential scope, as ARNs have it."""
    user_agent: str = ""
    invocation_id: str = ""
    """The header ``amz-sdk-invocation-id``: equal in all attempts of one call."""
    attempt: int = 1
    """The number in the header ``amz-sdk-request``: from 2 on, the client repeats the call."""


def _release_nothing() -> None:
    """Stand where a service holds no answer."""


@dataclass(frozen=True)
class Service:
    """A service by botocore's name, as ``sagemaker``, ``logs``, ``cloudwatch``, ``sts`` and ``iam``."""

    name: str
    operations: Mapping[str, Operation]
    release: Callable[[], None] = _release_nothing
    """Let all answers that are held be sent, and hold no other one: the front ends."""


class AwsError(Exception):
    """An error that a client of AWS reads: its code, its text, and the status of HTTP."""

    def __init__(self, code: str, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
