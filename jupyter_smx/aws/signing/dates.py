"""Parse and write the times of signatures; apart, because headers, queries and messages share them."""

from __future__ import annotations

import calendar
import re
import time
from email.utils import parsedate_to_datetime

TIMESTAMP = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)


def parse_timestamp(text: str) -> float | None:
    """Return a time as ``20260131T120000Z`` in seconds since the epoch; None for any other text."""
    match = TIMESTAMP.fullmatch(text)
    return float(calendar.timegm(tuple(map(int, match.groups())))) if match else None


def format_http_date(text: str) -> str:
    """Return the time of a header ``Date`` in the form of ``X-Amz-Date``; empty if it is none."""
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return ""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment.timestamp()))


def format_iso(moment: float) -> str:
    """Return a time in seconds since the epoch as ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
