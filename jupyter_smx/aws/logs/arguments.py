"""Check the members of requests for logs, with CloudWatch's errors and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_smx.aws.service import AwsError
from jupyter_smx.model.records.log_stream import LOG_GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS = {group: kind for kind, group in LOG_GROUPS.items()}
"""Kinds of jobs by the group of their logs."""
MAX_EVENTS = 10_000
MAX_ROWS = 50
_ARN_PREFIX = "arn:"


class TimeRange(NamedTuple):
    """Events from ``since`` on and before ``until``, in milliseconds since the epoch."""

    since: int = 0
    until: int | None = None


def invalid_parameter(message: str) -> AwsError:
    """Return the error of a member that cannot be used."""
    return AwsError("InvalidParameterException", message)


def unknown_group_error() -> AwsError:
    """Return the error of a group that has no jobs' logs."""
    return AwsError("ResourceNotFoundException", "The specified log group does not exist.")


def unknown_stream_error() -> AwsError:
    """Return the error of a stream that does not exist, or not yet; clients ask for it again."""
    return AwsError("ResourceNotFoundException", "The specified log stream does not exist.")


def invalid_token_error() -> AwsError:
    """Return the error of a token that no answer had."""
    return invalid_parameter("The specified nextToken is invalid.")


def read_group(members: Mapping[str, Any]) -> str:
    """Return the group of a request, by its name or its ARN.

    :raises AwsError: none is named, or both ways are used, or there is no such group.
    """
    name, identifier = members.get("logGroupName"), members.get("logGroupIdentifier")
    if (name is None) == (identifier is None):
        raise invalid_parameter("Exactly one of logGroupName and logGroupIdentifier must be specified.")
    group = str(identifier if name is None else name)
    if group.startswith(_ARN_PREFIX):
        group = group.partition(":log-group:")[2].removesuffix(":*")
    if group not in GROUPS:
        raise unknown_group_error()
    return group


def read_limit(members: Mapping[str, Any], maximum: int) -> int:
    """Return the ``limit``, by default the maximum.

    :raises AwsError: it is less than 1 or more than the maximum.
    """
    limit = members.get("limit")
    if limit is None:
        return maximum
    if not 1 <= limit <= maximum:
        bound = f"greater than or equal to {1}" if limit < 1 else f"less than or equal to {maximum}"
        raise invalid_parameter(
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint: "
            f"Member must have value {bound}"
        )
    return int(limit)


def read_times(members: Mapping[str, Any]) -> TimeRange:
    """Return ``startTime`` and ``endTime``.

    :raises AwsError: one is negative, or the end is before the start.
    """
    since, until = members.get("startTime"), members.get("endTime")
    for name, value in (("startTime", since), ("endTime", until)):
        if value is not None and value < 0:
            raise invalid_parameter(
                f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: "
                "Member must have value greater than or equal to 0"
            )
    if until is not None and until < (since or 0):
        raise invalid_parameter(f"The endTime {until} must not be before the startTime {since}.")
    return TimeRange(since or 0, until)
