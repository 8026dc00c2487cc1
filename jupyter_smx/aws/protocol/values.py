"""Times and numbers as the protocols write them; separate, because both forms need them."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

from jupyter_smx.aws.service import AwsError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def serialization_error(message: str) -> AwsError:
    """Return the error of a request that does not have the form of its shape."""
    return AwsError("SerializationException", message)


def read_epoch(seconds: float) -> datetime:
    """Return the time of seconds since the epoch.

    :raises AwsError: no calendar has that time.
    """
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise serialization_error(f"{seconds!r} is not a time in seconds since the epoch") from error


def read_iso(text: str) -> datetime:
    """Return the time of an ISO 8601 text; without a zone it is UTC.

    :raises AwsError: it is none.
    """
    try:
        found = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError as error:
        raise serialization_error(f"{text[:64]!r} is not a time by ISO 8601") from error
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def write_epoch(moment: datetime) -> float:
    """Return seconds since the epoch with milliseconds, whole ones as an integer."""
    seconds = round((moment - _EPOCH).total_seconds(), 3)
    return int(seconds) if seconds == math.floor(seconds) else seconds


def write_iso(moment: datetime) -> str:
    """Return the time in UTC by ISO 8601, with milliseconds if it has some."""
    found = moment.astimezone(timezone.utc)
    precision = "milliseconds" if found.microsecond else "seconds"
    return found.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
