"""What tells one content of an object from another: its tag, and where a store gives none its time. Pure functions."""

from __future__ import annotations

import calendar
import contextlib
import datetime as dt
import email.utils
import time
from typing import Any, Dict, Optional

from jupyter_smx.agent.stores import digest

_TAGS = ("ETag", "etag", "md5Hash", "generation", "checksum", "Content-MD5", "content_hash", "sha")
_TIMES = (
    "LastModified",
    "Last-Modified",
    "last_modified",
    "updated",
    "modificationTime",
    "modified",
    "modify",
    "mtime",
)
_INSIDE = ("CRC",)
"""In an archive times say little: who packs the same twice sets them to the same."""
_MILLISECONDS = 1e11


def change_tag(info: Dict[str, Any], now: float, *, inside: bool) -> str:
    """Give what changes with an object's content, '' where that is not sure: it has nothing, or was written just now.

    A time that nobody here can read may be one of minutes, as some FTP servers give it, and is no sign either.
    ``inside`` says that it lies in an archive.
    """
    name = next((name for name in (_INSIDE if inside else (*_TAGS, *_TIMES)) if info.get(name) not in (None, "")), "")
    if not name or (name in _TIMES and _is_new(info[name], now)):
        return ""
    return f"{name}={info[name]}"


def modified_time(info: Dict[str, Any]) -> Optional[float]:
    """Give when an object was written, in seconds; None where that is not said in a way that is known here."""
    told = next((info[name] for name in _TIMES if info.get(name) not in (None, "")), None)
    return None if told is None else _seconds(told)


def _is_new(told: Any, now: float) -> bool:
    seconds = _seconds(told)
    return seconds is None or seconds > now - digest.RACY


def _seconds(told: Any) -> Optional[float]:
    """Read a time as stores of different kinds write it; None for what nobody knows here."""
    if isinstance(told, dt.datetime):
        return (told if told.tzinfo else told.replace(tzinfo=dt.timezone.utc)).timestamp()
    if isinstance(told, (int, float)):
        return told / 1000 if told > _MILLISECONDS else float(told)
    text = str(told)
    with contextlib.suppress(ValueError):  # FTP
        return float(calendar.timegm(time.strptime(text[:14], "%Y%m%d%H%M%S")))
    with contextlib.suppress(ValueError):
        return _seconds(dt.datetime.fromisoformat(text.replace("Z", "+00:00")))
    with contextlib.suppress(ValueError, TypeError):  # the web; before Python 3.10 it raises the other one
        return email.utils.parsedate_to_datetime(text).timestamp()
    return None
