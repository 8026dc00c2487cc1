"""Read the log of a job: by byte cursor from each of its hosts, or its last lines."""

from __future__ import annotations

import codecs
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.kernel.text.formats import readable
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.records.log_stream import streams_of
from jupyter_smx.model.spec.instance import groups_by_host, leader_of
from jupyter_smx.model.status import is_final
from jupyter_smx.model.text import LEFT_OUT, NOTICE_SIZE, format_left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jupyter_smx.kernel.client.client import Client, LogChunk
    from jupyter_smx.model.records.job import Job

CHUNK_SIZE = 262_144
"""Bytes that are looked through at once."""

IDLE_SECONDS = 10.0
"""Seconds without output after which a follower of a log is notified."""

FIRST_IDLE_SECONDS = 3.0
"""The same for the first time."""

_POLL_SECONDS = 0.5
"""Seconds between two looks at all hosts of a job with several."""


class LogPosition(Struct, frozen=True):
    """A byte of the log of one attempt."""

    attempt: int = 1
    offset: int = 0


def start_of_last_lines(client: Client, job_id: str, host: str, count: int, only: int = 0) -> LogPosition:
    """Find where the last ``count`` lines of a host's log begin, including the lines that separate attempts.

    With ``only``, search in that attempt alone.
    """
    newest = retry_while_unavailable(partial(client.log, job_id, host, 0, limit=1))
    left = count
    for attempt in [only] if only else range(newest.attempts, 0, -1):
        read = partial(client.log, job_id, host, attempt=attempt)
        offset, found = _search_backwards(read, retry_while_unavailable(partial(read, 0, limit=1)).total, left)
        if found >= left:
            return LogPosition(attempt, offset)
        left -= found + 1  # the line between this attempt and the one before
    return LogPosition(only or 1)


def _search_backwards(read: Callable[..., LogChunk], total: int, count: int) -> tuple[int, int]:
    """Return where the last ``count`` lines of a log of ``total`` bytes begin, and how many of them there are."""
    if not count:
        return total, 0
    found = 0
    end = total - 1  # a newline there ends the last line and begins none
    while end > 0:
        start = max(0, end - CHUNK_SIZE)
        chunk = retry_while_unavailable(partial(read, start, limit=end - start, before=end))
        piece, start = chunk.data, chunk.offset - len(chunk.data)  # before a gap, where it lies there
        if not piece:
            break  # the rest was left out
        here = piece.count(b"\n")
        if found + here >= count:
            at = len(piece)
            for _ in range(count - found):
                at = piece.rindex(b"\n", 0, at)
            return start + at + 1, count
        found += here
        end = start
    return 0, found + (total > 0)


def hosts_of(job: Job) -> tuple[str, ...]:
    """Name the hosts of a job, as SageMaker numbers them."""
    return tuple(labels_of(job))


def labels_of(job: Job) -> dict[str, str]:
    """Return for each host its label in logs: its name, and its group if there are several."""
    groups = job.spec.instance_groups
    several = len(groups) > 1
    return {host: f"{host} ({group.name})" if several else host for host, group in groups_by_host(groups).items()}


class LogCursor:
    """A cursor in one host's log: reads bytes, returns whole characters, with a prefix on each line for several hosts.

    If a job began again, the logs of its attempts follow each other, each after a line that names it; ``last`` is the
    attempt to end with, 0 for the newest.
    """

    def __init__(
        self,
        client: Client,
        job_id: str,
        host: str,
        *,
        prefix: str = "",
        begin: LogPosition | None = None,
        last: int = 0,
    ) -> None:
        self._client = client
        self._job_id = job_id
        self.host = host
        self._prefix = prefix
        self._last_attempt = last
        self._attempt, self._offset = (begin.attempt, begin.offset) if begin else (1, 0)
        self._last_bytes = b""
        self._at_line_start = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.at_end = False

    def read(self, wait: float = 0.0) -> str:
        """Return the new text, after ``wait`` seconds at most; :attr:`at_end` is True if nothing can follow."""
        piece = retry_while_unavailable(
            lambda: self._client.log(self._job_id, self.host, self._offset, wait, attempt=self._attempt)
        )
        gap = self._describe_gap(piece)
        self._offset = piece.offset
        self._last_bytes = piece.data[-NOTICE_SIZE:] or self._last_bytes
        over = piece.final and piece.offset >= piece.total
        text = gap + self._decoder.decode(piece.data, final=over)
        self.at_end = over and self._attempt >= (self._last_attempt or piece.attempts)
        if over and not self.at_end:
            text += self._next_attempt(text)
        return self._add_prefix(text)

    def _describe_gap(self, piece: LogChunk) -> str:
        """Return a line about the bytes left out between the last piece and this one, unless the last one had it."""
        count = piece.offset - len(piece.data) - self._offset
        if count <= 0 or not self._last_bytes or LEFT_OUT.encode() in self._last_bytes:
            return ""
        return f"\n[... {format_left_out(count)} ...]\n"

    def _next_attempt(self, text: str) -> str:
        self._attempt += 1
        self._offset, self._last_bytes = 0, b""
        self._decoder.reset()
        in_line = not text.endswith("\n") if text else not self._at_line_start
        return f"{chr(10) if in_line else ''}--- attempt {self._attempt} ---\n"

    def _add_prefix(self, text: str) -> str:
        if not self._prefix or not text:
            return text
        body = text[:-1].replace("\n", f"\n{self._prefix}") + text[-1]
        marked = f"{self._prefix}{body}" if self._at_line_start else body
        self._at_line_start = text.endswith("\n")
        return marked


def parse_line_count(value: int | str, option: str) -> int:
    """Read a number of lines.

    :raises ValidationError: it is no number.
    """
    return parse_number(value, option, "of lines", 0)


def open_cursors(
    client: Client, job: Job, host: str = "", last: int | None = None, *, marked: bool = False
) -> list[LogCursor]:
    """Return cursors in the logs of one host or of all, before their ``last`` lines or (None) at their beginning.

    ``host`` may be the name of a stream. With ``marked``, each line gets the host's name, and that of its group, if
    there are several.
    """
    stream = next((one for one in streams_of(job) if one.name == host), None)
    if stream is not None:
        begin = LogPosition(stream.attempt)
        if last is not None:
            begin = start_of_last_lines(client, job.id, stream.host, last, stream.attempt)
        return [LogCursor(client, job.id, stream.host, begin=begin, last=stream.attempt)]
    labels = labels_of(job)
    hosts = (host,) if host else tuple(labels)
    prefix = "{} | " if marked and len(hosts) > 1 else ""
    begins = {name: None if last is None else start_of_last_lines(client, job.id, name, last) for name in hosts}
    return [
        LogCursor(client, job.id, name, prefix=prefix.format(labels.get(name, name)), begin=begins[name])
        for name in hosts
    ]


def read_all(client: Client, job: Job, host: str = "", last: int | None = None) -> Iterator[str]:
    """Yield a job's log so far piece by piece, host by host, under the host's name if there are several."""
    tails = open_cursors(client, job, host, last)
    labels = labels_of(job)
    for index, tail in enumerate(tails):
        if len(tails) > 1:
            yield f"{chr(10) if index else ''}==> {labels[tail.host]} <==\n"
        for _, text in read_available((tail,)):
            yield text


def read_available(tails: Iterable[LogCursor]) -> Iterator[tuple[str, str]]:
    """Yield the available text of each cursor piece by piece, with its host."""
    for tail in tails:
        while text := tail.read():
            yield tail.host, text


def last_lines(client: Client, job: Job, count: int) -> tuple[str, ...]:
    """Read the last lines of the leader's log; lines that are drawn over by a carriage return count once."""
    host = leader_of(job.spec.instance_groups)
    total = client.log(job.id, host, 0, limit=1).total
    start = max(0, total - 200 * count)
    text = client.log(job.id, host, start).data.decode(errors="replace")
    lines = text.rstrip().split("\n")
    if start and len(lines) > 1 and "\r" not in lines[0]:
        lines = lines[1:]  # the first is the end of a line, which a carriage return may have overwritten
    return tuple(line for line in map(readable, lines[-count:]) if line)


def follow(
    client: Client,
    job: Job,
    write: Callable[[str], object],
    host: str = "",
    last: int | None = None,
    *,
    quiet: Callable[[], object] | None = None,
) -> None:
    """Write a job's log as it comes, of one host or of all, until the verdict and everything was written. Blocks.

    ``quiet`` is called whenever no text came for a while.
    """
    for _, text in follow_chunks(client, job, open_cursors(client, job, host, last, marked=True)):
        if text:
            write(text)
        elif quiet is not None:
            quiet()


def follow_chunks(client: Client, job: Job, tails: Sequence[LogCursor]) -> Iterator[tuple[str, str]]:
    """Yield each new piece of log with its host, until the job has its verdict and the log is complete. Blocks.

    An empty piece means that no text came for a while.
    """
    pauses = chain((FIRST_IDLE_SECONDS,), repeat(IDLE_SECONDS))
    yield from (
        _follow_one(client, job.id, tails[0], pauses) if len(tails) == 1 else _follow_all(client, job.id, tails, pauses)
    )


def _follow_one(client: Client, job_id: str, tail: LogCursor, pauses: Iterator[float]) -> Iterator[tuple[str, str]]:
    while not tail.at_end:
        text = tail.read(next(pauses))
        if text:
            yield tail.host, text
        elif not tail.at_end:
            if is_final(retry_while_unavailable(lambda: client.job(job_id)).state):
                yield from read_available((tail,))
                return
            yield tail.host, ""


def _follow_all(
    client: Client, job_id: str, tails: Sequence[LogCursor], pauses: Iterator[float]
) -> Iterator[tuple[str, str]]:
    over, left = False, next(pauses)
    while not over:
        over = is_final(retry_while_unavailable(lambda: client.wait(job_id, _POLL_SECONDS)).state)
        found = False
        for piece in read_available(tails):
            found = True
            yield piece
        left = left - _POLL_SECONDS if not found else IDLE_SECONDS
        if left <= 0 and not over:
            left = next(pauses)
            yield tails[0].host, ""
