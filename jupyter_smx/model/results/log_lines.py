"""Lines of a log with their times; apart, because the controller sends them and the services of AWS read them."""

from __future__ import annotations

from msgspec import Struct


class LogEvent(Struct, frozen=True, array_like=True):
    """One line as an event of CloudWatch: the offset of its first byte, its time, and its text without newline.

    The time, in milliseconds since the epoch, is that of the piece of the log that completed the line.
    """

    offset: int
    at: int
    text: str


class LogLines(Struct, frozen=True, kw_only=True):
    """A page of lines: all of them begin in the bytes from ``begin`` up to ``end``.

    The page after it is that after ``end``, and the page before it that before ``begin``. ``total`` is the size of the
    log. A request for no lines has the times of its first and last byte, ``first_at`` and ``last_at`` in milliseconds.
    """

    lines: tuple[LogEvent, ...]
    begin: int
    end: int
    total: int
    first_at: int | None = None
    last_at: int | None = None
    is_final: bool = False
    """True if the log gets no more bytes."""
    has_more: bool = False
    """True if lines of the selection follow after ``end``, or before ``begin`` where the last lines were selected."""
    attempt: int = 1
    attempts: int = 1
