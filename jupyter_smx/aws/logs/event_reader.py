"""Read the events of one stream through the runs of its job, in pages from either end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.aws.logs.streams import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.aws.job_records import JobRecords
    from jupyter_smx.aws.logs.arguments import TimeRange
    from jupyter_smx.aws.logs.streams import JobStream
    from jupyter_smx.model.results.log_lines import LogLines


class TimedLine(NamedTuple):
    """A line of a stream: where it is, its time in milliseconds, and its text."""

    position: Position
    at: int
    text: str


class EventPage(NamedTuple):
    """Lines of one stream, and the places before and after them; the same place twice without lines."""

    lines: Sequence[TimedLine]
    begin: Position
    end: Position
    has_more: bool


class StreamSize(NamedTuple):
    """The bytes of a stream, and the times of the first and last one."""

    size: int
    first_at: int
    last_at: int


class EventReader:
    """Reads one stream. Times never go back from one run of the job to the next."""

    def __init__(self, records: JobRecords, stream: JobStream) -> None:
        self._records = records
        self._stream = stream
        self._ends: dict[int, int] = {}
        """Times of the last bytes by run."""

    async def read_forward(self, begin: Position | None, times: TimeRange, limit: int) -> EventPage:
        """Read the first lines after a place, None: all of them; those of the next run where this one has none."""
        begin = begin or Position(self._stream.first, 0)
        place = begin
        while True:
            page = await self._read(place.attempt, times, {"after": f"{place.offset}", "limit": f"{limit}"})
            is_newest = place.attempt >= self._stream.last
            if page.lines or is_newest or not page.is_final:
                return await self._page(place.attempt, page, begin, is_newest=is_newest or not page.is_final)
            place = Position(place.attempt + 1, 0)

    async def read_backward(self, end: Position | None, times: TimeRange, limit: int) -> EventPage:
        """Read the last lines before a place, None: all of them; those of the run before where this one has none."""
        place = end
        attempt = self._stream.last if place is None else place.attempt
        while True:
            query = {"from_end": "1", "limit": f"{limit}"} | ({} if place is None else {"before": f"{place.offset}"})
            page = await self._read(attempt, times, query)
            if page.lines or attempt <= self._stream.first:
                begin = end or Position(self._stream.first, 0)
                return await self._page(attempt, page, begin, is_newest=attempt <= self._stream.first)
            attempt, place = attempt - 1, None

    async def read_size(self) -> StreamSize | None:
        """Return the size of the stream; None if it has no bytes, so that it does not exist yet."""
        found: StreamSize | None = None
        for attempt in range(self._stream.first, self._stream.last + 1):
            page = await self._records.log_lines(self._stream.job_id, self._query(attempt) | {"limit": "0"})
            if page.first_at is not None and page.last_at is not None:
                size, first, last = found or (0, page.first_at, 0)
                found = StreamSize(size + page.total, first, max(last, page.last_at))
        return found

    def _query(self, attempt: int) -> dict[str, str]:
        return {"host": self._stream.host, "attempt": f"{attempt}"}

    async def _read(self, attempt: int, times: TimeRange, query: dict[str, str]) -> LogLines:
        floor = await self._floor(attempt)
        # A line that is older than the floor has the time of the floor.
        if times.since > floor:
            query = query | {"since": f"{times.since}"}
        if times.until is not None:
            query = query | ({"until": f"{times.until}"} if times.until > floor else {"limit": "0"})
        return await self._records.log_lines(self._stream.job_id, self._query(attempt) | query)

    async def _page(self, attempt: int, page: LogLines, place: Position, *, is_newest: bool) -> EventPage:
        if not page.lines:
            return EventPage((), place, place, has_more=False)
        floor = await self._floor(attempt)
        lines = [TimedLine(Position(attempt, line.offset), max(line.at, floor), line.text) for line in page.lines]
        begin, end = Position(attempt, page.begin), Position(attempt, page.end)
        return EventPage(lines, begin, end, has_more=page.has_more or not is_newest)

    async def _floor(self, attempt: int) -> int:
        """Return the time of the last byte before a run."""
        for earlier in range(self._stream.first, attempt):
            if earlier not in self._ends:
                page = await self._records.log_lines(self._stream.job_id, self._query(earlier) | {"limit": "0"})
                self._ends[earlier] = page.last_at or 0
        return max((self._ends[earlier] for earlier in range(self._stream.first, attempt)), default=0)
