"""Filter, sort and page lists of jobs as ListTrainingJobs, ListProcessingJobs and Search do. Pure.

A token holds the place of the last row of a page, so that jobs that are created meanwhile move nothing: the value that
the list is sorted by, and the id of the job.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jupyter_smx.aws.sagemaker.errors import validation_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jupyter_smx.model.records.job import JobSummary

DEFAULT_PAGE, MAX_PAGE = 10, 100
Key = tuple[float | str, str]
_KEYS: dict[str, Callable[[JobRow], float | str]] = {
    "CreationTime": lambda row: row.created_at,
    "LastModifiedTime": lambda row: row.modified_at,
    "Name": lambda row: row.name,
    "Status": lambda row: row.status,
}


class JobRow(Struct, frozen=True, kw_only=True):
    """One job of a list; times are seconds since the epoch."""

    id: str
    name: str
    status: str
    created_at: float
    modified_at: float
    warm_pool: str = ""


class Page(Struct, frozen=True, kw_only=True):
    """The rows of an answer, and the token of the next page; "" after the last."""

    rows: tuple[JobRow, ...]
    token: str = ""


class _Token(Struct, frozen=True):
    sort: str
    descending: bool
    value: float | str
    id: str


def row_of(job: JobSummary) -> JobRow:
    """Return the row of a job; the summary of an earlier version has no time of its last change, so its steps count."""
    return JobRow(
        id=job.id,
        name=job.name,
        status=job.status.value,
        created_at=job.created_at,
        modified_at=job.modified_at or job.ended_at or job.started_at or job.created_at,
        warm_pool=job.warm_pool_status,
    )


def list_page(rows: Iterable[JobRow], request: Mapping[str, Any]) -> Page:
    """Return the page of a list that a request asks for, newest first unless it says otherwise.

    :raises AwsError: the token is of another list.
    """
    sort, descending = request.get("SortBy") or "CreationTime", request.get("SortOrder", "Descending") == "Descending"
    chosen = [row for row in rows if _matches(row, request)]
    return page_of(chosen, sort, request, descending=descending)


def page_of(rows: Sequence[JobRow], sort: str, request: Mapping[str, Any], *, descending: bool) -> Page:
    """Sort rows and cut the page that the token of a request begins.

    :raises AwsError: the token is of another list.
    """
    key_of = _KEYS.get(sort, _KEYS["CreationTime"])

    def key(row: JobRow) -> Key:
        return key_of(row), row.id

    ordered = sorted(rows, key=key, reverse=descending)
    if word := request.get("NextToken"):
        after = _read_token(word, sort, descending=descending)
        last = (after.value, after.id)
        ordered = [row for row in ordered if (key(row) < last if descending else key(row) > last)]
    size = min(request.get("MaxResults") or DEFAULT_PAGE, MAX_PAGE)
    page = tuple(ordered[:size])
    if len(ordered) <= size:
        return Page(rows=page)
    return Page(rows=page, token=_write_token(_Token(sort, descending, *key(page[-1]))))


def _matches(row: JobRow, request: Mapping[str, Any]) -> bool:
    contains = request.get("NameContains", "").lower()
    # No job has a training plan, so that no name of one selects a job.
    equal = {"StatusEquals": row.status, "WarmPoolStatusEquals": row.warm_pool, "TrainingPlanArnEquals": ""}
    return (
        contains in row.name.lower()
        and all(request.get(name) in (None, value) for name, value in equal.items())
        and _is_within(row.created_at, request.get("CreationTimeAfter"), request.get("CreationTimeBefore"))
        and _is_within(row.modified_at, request.get("LastModifiedTimeAfter"), request.get("LastModifiedTimeBefore"))
    )


def _is_within(seconds: float, after: datetime | None, before: datetime | None) -> bool:
    # Clients send back a time of an answer, which has microseconds.
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return (after is None or moment > after) and (before is None or moment < before)


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _read_token(word: str, sort: str, *, descending: bool) -> _Token:
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(word.encode()), type=_Token)
    except (binascii.Error, UnicodeError, ValueError):
        found = None
    if found is None or (found.sort, found.descending) != (sort, descending):
        raise validation_error(
            f"1 validation error detected: Value '{word[:64]}' at 'nextToken' is not a token of this list."
        )
    return found
