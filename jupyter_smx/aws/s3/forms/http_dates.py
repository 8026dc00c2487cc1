"""Parse and write the times of S3, apart, because headers and XML share them."""

from __future__ import annotations

import time
from email.utils import formatdate, parsedate_to_datetime


def parse_http_date(text: str) -> float | None:
    """Return the time of a header in seconds since the epoch; None if it is none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def format_http_date(moment: float) -> str:
    """Return a time as ``Last-Modified`` has it."""
    return formatdate(int(moment), usegmt=True)


def format_iso(moment: float) -> str:
    """Return a time as XML of S3 has it; whole seconds, as in ``Last-Modified``, so that both are equal."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(int(moment)))
