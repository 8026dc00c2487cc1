"""Merge the pages of several streams into one page of events by time, and say where the next one begins."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jupyter_smx.aws.logs.arguments import invalid_token_error
from jupyter_smx.aws.logs.streams import Position  # noqa: TC001 - msgspec decodes tokens into it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class StreamEvent(NamedTuple):
    """A line of a stream; events are in order by time, then by stream, then by place."""

    at: int
    stream: str
    position: Position
    text: str

    def key(self) -> EventKey:
        """Return the place of the event in the order of all events."""
        return EventKey(self.at, self.stream, self.position)


class EventKey(NamedTuple):
    """The place of an event in the order of all events of a group."""

    at: int
    stream: str
    position: Position


class StreamPage(NamedTuple):
    """The next events of one stream; a page that is not the last one has at least one."""

    events: Sequence[StreamEvent]
    is_last: bool


class ResumePoint(NamedTuple):
    """Where one stream continues: from this time, or after this line."""

    since: int
    after: Position | None = None


class MergedPage(NamedTuple):
    """Events in order, and the last one that was looked at; None if all were."""

    events: list[StreamEvent]
    last: EventKey | None


def merge(pages: Iterable[StreamPage], limit: int, matches: Callable[[str], bool]) -> MergedPage:
    """Merge pages, one of each stream, up to the first event that another page may still precede."""
    pages = list(pages)
    # What follows a page is later than its last event, so up to the earliest of these nothing is missing.
    ends = [page.events[-1].key() for page in pages if not page.is_last]
    horizon = min(ends, default=None)
    events = sorted(event for page in pages for event in page.events if horizon is None or event.key() <= horizon)
    found: list[StreamEvent] = []
    for number, event in enumerate(events):
        if matches(event.text):
            found.append(event)
        if len(found) == limit:
            is_all = horizon is None and number == len(events) - 1
            return MergedPage(found, None if is_all else event.key())
    return MergedPage(found, horizon)


def resume_point(stream: str, since: int, last: EventKey | None) -> ResumePoint:
    """Return where a stream continues after an event that may be of another stream."""
    if last is None:
        return ResumePoint(since)
    if stream == last.stream:
        return ResumePoint(since, last.position)
    return ResumePoint(max(since, last.at + (stream < last.stream)))


class FilterToken(NamedTuple):
    """The rest of a search: the job before its first one by name, and the last event that was looked at."""

    before_first: str
    last: EventKey | None


def format_filter_token(token: FilterToken) -> str:
    """Write a token of FilterLogEvents."""
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def parse_filter_token(text: str) -> FilterToken:
    """Read a token of FilterLogEvents.

    :raises AwsError: no answer had it.
    """
    try:
        token = msgspec.json.decode(base64.b64decode(text, altchars=b"-_", validate=True), type=FilterToken)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise invalid_token_error() from None
    if token.last is not None and min(token.last.at, token.last.position.attempt - 1, token.last.position.offset) < 0:
        raise invalid_token_error()
    return token
