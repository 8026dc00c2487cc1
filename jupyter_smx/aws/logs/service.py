"""The operations of CloudWatch Logs that read groups, streams and events."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.job_records import JobNames
from jupyter_smx.aws.logs import arguments
from jupyter_smx.aws.logs.arguments import GROUPS, MAX_EVENTS, MAX_ROWS, invalid_parameter
from jupyter_smx.aws.logs.event_reader import EventReader
from jupyter_smx.aws.logs.filter_pattern import compile_filter
from jupyter_smx.aws.logs.paging import (
    FilterToken,
    MergedPage,
    StreamEvent,
    StreamPage,
    format_filter_token,
    merge,
    parse_filter_token,
    resume_point,
)
from jupyter_smx.aws.logs.streams import (
    event_id,
    find_stream,
    format_token,
    job_of_stream,
    job_streams,
    parse_token,
)
from jupyter_smx.aws.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_smx.aws.job_records import JobRecords
    from jupyter_smx.aws.logs.arguments import TimeRange
    from jupyter_smx.aws.logs.event_reader import EventPage
    from jupyter_smx.aws.logs.paging import EventKey
    from jupyter_smx.aws.logs.streams import JobStream
    from jupyter_smx.aws.service import Caller

ACCOUNT = "000000000000"
CONCURRENT = 16
"""Streams that are read at once for one request."""
JOBS_AT_ONCE = 50
"""Jobs whose streams one search merges; the next token continues with the jobs after them."""
MAX_NAMED_STREAMS = 100
MIN_PAGE = 100
"""Events of each stream in a search of many; the search of a page of events ends where the first stream's page does."""
_ORDERS = ("LogStreamName", "LastEventTime")


def make_service(records: JobRecords, account: str = ACCOUNT) -> Service:
    """Make the service ``logs`` from the records of jobs."""
    operations = LogOperations(records, account)
    return Service(
        "logs",
        {
            "DescribeLogGroups": operations.describe_groups,
            "DescribeLogStreams": operations.describe_streams,
            "GetLogEvents": operations.get_events,
            "FilterLogEvents": operations.filter_events,
        },
    )


class LogOperations:
    """Operations by their members; each returns the members of its answer."""

    def __init__(self, records: JobRecords, account: str) -> None:
        self._records = records
        self._account = account
        self._names = JobNames(records)

    async def describe_groups(self, members: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """List the groups of training and processing jobs."""
        prefix, pattern = members.get("logGroupNamePrefix"), members.get("logGroupNamePattern")
        if prefix and pattern:
            raise invalid_parameter("logGroupNamePrefix and logGroupNamePattern are mutually exclusive parameters.")
        limit = arguments.read_limit(members, MAX_ROWS)
        after = members.get("nextToken") or ""
        groups = [
            group
            for group in sorted(GROUPS)
            if group.startswith(prefix or "") and (pattern or "").lower() in group.lower() and group > after
        ]
        rows = [self._group_row(group, caller) for group in groups[:limit]]
        return {"logGroups": rows} | ({"nextToken": groups[limit - 1]} if len(groups) > limit else {})

    def _group_row(self, group: str, caller: Caller) -> dict[str, Any]:
        arn = self._group_arn(group, caller)
        return {
            "logGroupName": group,
            "arn": f"{arn}:*",
            "logGroupArn": arn,
            "metricFilterCount": 0,
            "logGroupClass": "STANDARD",
        }

    def _group_arn(self, group: str, caller: Caller) -> str:
        return f"arn:aws:logs:{caller.region}:{self._account}:log-group:{group}"

    async def describe_streams(self, members: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """List the streams of a group, by name or the newest jobs first."""
        group = arguments.read_group(members)
        limit = arguments.read_limit(members, MAX_ROWS)
        prefix, by_time = members.get("logStreamNamePrefix"), _is_by_time(members)
        # SageMaker's SDK asks for 50 rows until there is no token, and sends none: a job with more hosts has one page.
        if prefix and "/" in prefix and limit == MAX_ROWS and not members.get("nextToken"):
            limit = 1 << 30
        candidates = await self._candidates(group, prefix or "")
        if by_time:
            candidates.sort(key=lambda found: found[1])
        if bool(members.get("descending")):
            candidates.reverse()
        rest = _after_token(candidates, members.get("nextToken"))
        rows = await self._rows([(group, name) for name, _ in rest], prefix or "", limit, members)
        arn = self._group_arn(group, caller)
        found = {"logStreams": [row | {"arn": f"{arn}:log-stream:{row['logStreamName']}"} for row in rows[:limit]]}
        return found | ({"nextToken": rows[limit - 1]["logStreamName"]} if len(rows) > limit else {})

    async def _candidates(self, group: str, prefix: str) -> list[tuple[str, float]]:
        """List name and time of creation of the jobs whose streams a prefix may select, by name."""
        if "/" in prefix:
            return [(job_of_stream(prefix), 0.0)]
        jobs = await self._names.update()
        return [(job.name, job.created_at) for job in jobs if job.kind == GROUPS[group] and job.name.startswith(prefix)]

    async def _rows(
        self, jobs: Sequence[tuple[str, str]], prefix: str, limit: int, members: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Describe streams, one more than the limit where there are more."""
        descending, after = bool(members.get("descending")), members.get("nextToken") or ""
        rows: list[dict[str, Any]] = []
        for group, name in jobs:
            streams = [stream for stream in await self._streams(group, name) if stream.name.startswith(prefix)]
            if name == job_of_stream(after):
                streams = [stream for stream in streams if (stream.name < after if descending else stream.name > after)]
            found = await _gather(self._row(stream) for stream in sorted(streams, reverse=descending))
            rows += [row for row in found if row is not None]
            if len(rows) > limit:
                break
        return rows

    async def _row(self, stream: JobStream) -> dict[str, Any] | None:
        size = await EventReader(self._records, stream).read_size()
        if size is None:
            return None
        return {
            "logStreamName": stream.name,
            "creationTime": stream.began_at,
            "firstEventTimestamp": size.first_at,
            "lastEventTimestamp": size.last_at,
            "lastIngestionTime": size.last_at,
            "storedBytes": size.size,
        }

    async def _streams(self, group: str, job_name: str) -> list[JobStream]:
        job = await self._records.find(job_name) if job_name else None
        return [] if job is None or job.spec.kind != GROUPS[group] else job_streams(job)

    async def _stream(self, group: str, name: str) -> JobStream:
        job = await self._records.find(job_of_stream(name)) if "/" in name else None
        stream = None if job is None or job.spec.kind != GROUPS[group] else find_stream(job, name)
        if stream is None:
            raise arguments.unknown_stream_error()
        return stream

    async def get_events(self, members: dict[str, Any], _caller: Caller) -> dict[str, Any]:
        """Return a page of one stream, and the tokens of the pages after and before it."""
        group = arguments.read_group(members)
        times, limit = arguments.read_times(members), arguments.read_limit(members, MAX_EVENTS)
        token = members.get("nextToken")
        direction, place = parse_token(token) if token else ("f" if members.get("startFromHead") else "b", None)
        stream = await self._stream(group, str(members["logStreamName"]))
        if place is not None and not stream.first <= place.attempt <= stream.last:
            raise arguments.invalid_token_error()
        reader = EventReader(self._records, stream)
        read = reader.read_forward if direction == "f" else reader.read_backward
        page = await read(place, times, limit)
        if not page.lines and place is None and await reader.read_size() is None:
            raise arguments.unknown_stream_error()
        return _event_page(page)

    async def filter_events(self, members: dict[str, Any], _caller: Caller) -> dict[str, Any]:
        """Return the events of several streams that match a pattern, in the order of their times."""
        group = arguments.read_group(members)
        times, limit = arguments.read_times(members), arguments.read_limit(members, MAX_EVENTS)
        matches = compile_filter(members.get("filterPattern") or "")
        token = parse_filter_token(members["nextToken"]) if members.get("nextToken") else FilterToken("", None)
        streams, last_job = await self._selected_streams(group, members, token.before_first)
        # Pages of many streams are short: the next request reads those of later jobs again.
        size = min(limit, max(MIN_PAGE, MAX_EVENTS // max(1, len(streams))))
        pages = await _gather(
            self._stream_page(stream, times, size, token.last, is_named=bool(members.get("logStreamNames")))
            for stream in streams
        )
        merged = merge((page for page in pages if page is not None), limit, matches)
        rest = _rest_of_search(token, merged, last_job)
        found: dict[str, Any] = {
            "events": [_filtered_event(event) for event in merged.events],
            "searchedLogStreams": [],
        }
        return found | ({} if rest is None else {"nextToken": format_filter_token(rest)})

    async def _selected_streams(
        self, group: str, members: Mapping[str, Any], before_first: str
    ) -> tuple[list[JobStream], str]:
        """Return the streams of the next jobs, and the last of these jobs if there are more after it."""
        names, prefix = members.get("logStreamNames"), members.get("logStreamNamePrefix")
        if names and prefix:
            raise invalid_parameter("logStreamNames and logStreamNamePrefix are mutually exclusive parameters.")
        if names:
            if len(names) > MAX_NAMED_STREAMS:
                raise invalid_parameter(f"logStreamNames may have {MAX_NAMED_STREAMS} names, not {len(names)}.")
            return await _gather(self._stream(group, name) for name in dict.fromkeys(names)), ""
        candidates = [
            name
            for name, _ in await self._candidates(group, prefix or "")
            if not before_first or f"{name}/" > f"{before_first}/"
        ]
        jobs = candidates[:JOBS_AT_ONCE]
        found = await _gather(self._streams(group, name) for name in jobs)
        streams = [stream for streams in found for stream in streams if stream.name.startswith(prefix or "")]
        return streams, jobs[-1] if len(candidates) > len(jobs) else ""

    async def _stream_page(
        self, stream: JobStream, times: TimeRange, limit: int, last: EventKey | None, *, is_named: bool
    ) -> StreamPage | None:
        """Return the next events of a stream; None if it does not exist yet."""
        reader = EventReader(self._records, stream)
        point = resume_point(stream.name, times.since, last)
        if point.after is not None and point.after.attempt > stream.last:
            raise arguments.invalid_token_error()
        # The line at the place itself was in the page before.
        extra = 0 if point.after is None else 1
        page = await reader.read_forward(point.after, times._replace(since=point.since), min(limit + extra, MAX_EVENTS))
        if is_named and not page.lines and await reader.read_size() is None:
            raise arguments.unknown_stream_error()
        events = [
            StreamEvent(line.at, stream.name, line.position, line.text)
            for line in page.lines
            if line.position != point.after
        ]
        if page.lines and not events and page.has_more:
            page = await reader.read_forward(page.end, times._replace(since=point.since), limit)
            events = [StreamEvent(line.at, stream.name, line.position, line.text) for line in page.lines]
        return StreamPage(events, is_last=not page.has_more)


def _is_by_time(members: Mapping[str, Any]) -> bool:
    order = members.get("orderBy") or "LogStreamName"
    if order not in _ORDERS:
        raise invalid_parameter(
            f"1 validation error detected: Value '{order}' at 'orderBy' failed to satisfy constraint: "
            f"Member must satisfy enum value set: [{', '.join(_ORDERS)}]"
        )
    if order == "LastEventTime" and members.get("logStreamNamePrefix"):
        raise invalid_parameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
    return bool(order == "LastEventTime")


def _after_token(candidates: list[tuple[str, float]], token: str | None) -> list[tuple[str, float]]:
    """Return the jobs from that of the last row on."""
    if not token:
        return candidates
    for number, (name, _) in enumerate(candidates):
        if name == job_of_stream(token):
            return candidates[number:]
    raise arguments.invalid_token_error()


def _event_page(page: EventPage) -> dict[str, Any]:
    events = [{"timestamp": line.at, "message": line.text or " ", "ingestionTime": line.at} for line in page.lines]
    return {
        "events": events,
        "nextForwardToken": format_token("f", page.end),
        "nextBackwardToken": format_token("b", page.begin),
    }


def _filtered_event(event: StreamEvent) -> dict[str, Any]:
    return {
        "logStreamName": event.stream,
        "timestamp": event.at,
        "message": event.text or " ",
        "ingestionTime": event.at,
        "eventId": event_id(event.at, event.position),
    }


def _rest_of_search(token: FilterToken, merged: MergedPage, last_job: str) -> FilterToken | None:
    """Return where a search continues: with the same jobs, or with those after them; None at the end."""
    if merged.last is not None:
        return FilterToken(token.before_first, merged.last)
    return FilterToken(last_job, None) if last_job else None


async def _gather(work: Iterable[Any]) -> list[Any]:
    """Wait for coroutines, a few at once, and return their results in order."""
    semaphore = asyncio.Semaphore(CONCURRENT)
    return list(await asyncio.gather(*map(partial(_limited, semaphore), work)))


async def _limited(semaphore: asyncio.Semaphore, work: Any) -> Any:
    async with semaphore:
        return await work
