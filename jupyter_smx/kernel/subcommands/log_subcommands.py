"""The subcommands that stream: logs and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from jupyter_smx.kernel.failures.exceptions import JobFailed, failure_of
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.options.subcommand_parser import match_choice
from jupyter_smx.kernel.subcommands.declaration import JOB, Argument, Subcommand
from jupyter_smx.kernel.subcommands.job_subcommands import find_job
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.log_stream import streams_of
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from jupyter_smx.kernel.subcommands.declaration import Result, Surface
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.records.log_stream import LogStream

TAIL, HOST, STREAMS = "--tail", "--host", "--streams"
FOLLOW = Argument(name="follow", spellings=("-f", "--follow"), help="continue until the job ends")


class LogRequest(Struct, frozen=True, kw_only=True):
    """What to show of a log. ``last`` is a number of lines, None for all; ``host`` is "" for all hosts.

    With ``names``, show only the names of the streams, or of those of the host.
    """

    job: str = ""
    host: str = ""
    last: int | None = None
    follows: bool = False
    names: bool = False

    def host_of(self, job: Job) -> str:
        """Return the host or stream by the job's name for it, "" for all hosts.

        :raises ValidationError: the job has none of that name.
        """
        if not self.host or any(stream.name == self.host for stream in streams_of(job)):
            return self.host
        return match_choice(self.host, reader.hosts_of(job), HOST)

    def streams_of(self, job: Job) -> tuple[LogStream, ...]:
        """Return the streams that ``host`` names: all, those of a host, or one.

        :raises ValidationError: the job has no host or stream of that name.
        """
        host = self.host_of(job)
        return tuple(stream for stream in streams_of(job) if host in ("", stream.host, stream.name))


def log_request(found: Namespace) -> LogRequest:
    """Return the request that a parser found.

    :raises ValidationError: ``--tail`` is no number, or is given with ``--streams``.
    """
    other = "-f" if found.follow else TAIL if found.tail else ""
    if found.streams and other:
        raise ValidationError(
            f"{other} is not for {STREAMS}.",
            field="streams",
            rule=f"{STREAMS} shows the names of logs and no lines.",
            cure=f"Remove one of the two; {HOST} takes the name of a stream to show its lines.",
        )
    last = reader.parse_line_count(found.tail, TAIL) if found.tail else None
    return LogRequest(job=found.job, host=found.host, last=last, follows=found.follow, names=found.streams)


def _logs(found: Namespace, surface: Surface) -> Result | None:
    request = log_request(found)
    job = find_job(request.job, surface)
    host = request.host_of(job)
    if request.names:
        _write_names(request.streams_of(job), surface)
        return None
    try:
        (_follow if request.follows else _write_log)(job, host, request.last, surface)
        if not surface.json:
            _write_failure(job, surface)
    except KeyboardInterrupt:
        if not request.follows:
            raise
        return surface.still_running(job.name)
    return None


def _write_names(streams: Iterable[LogStream], surface: Surface) -> None:
    for stream in streams:
        if surface.json:
            surface.write_row(to_builtins(stream))
        else:
            surface.write(f"{stream.name}\n")


def _write_log(job: Job, host: str, last: int | None, surface: Surface) -> None:
    if surface.json:
        _write_lines(reader.read_available(reader.open_cursors(surface.client, job, host, last)), surface)
        return
    with surface.log_output(job.name) as write:
        for piece in reader.read_all(surface.client, job, host, last):
            write(piece)


def _follow(job: Job, host: str, last: int | None, surface: Surface) -> None:
    if surface.json:
        cursors = reader.open_cursors(surface.client, job, host, last)
        _write_lines(reader.follow_chunks(surface.client, job, cursors), surface)
    else:
        with surface.log_output(job.name) as write:
            reader.follow(surface.client, job, write, host, last, quiet=surface.quiet(job.id))


def _write_failure(job: Job, surface: Surface) -> None:
    """Write below the log of a failed job why it failed."""
    failure = failure_of(job if is_final(job.state) else surface.client.job(job.id))
    if isinstance(failure, JobFailed):
        surface.info(str(failure))


def _write_lines(pieces: Iterable[tuple[str, str]], surface: Surface) -> None:
    """Write each whole line with its host; a line without a newline comes last."""
    begun: dict[str, list[str]] = {}
    for host, text in pieces:
        first, *others = text.split("\n")
        parts = begun.setdefault(host, [])
        parts.append(first)
        for other in others:
            surface.write_row({"host": host, "line": "".join(parts)})
            parts[:] = [other]
    for host, parts in begun.items():
        if line := "".join(parts):
            surface.write_row({"host": host, "line": line})


def _events(found: Namespace, surface: Surface) -> Result | None:
    from jupyter_smx.kernel.sagemaker.describe import local_context  # noqa: PLC0415 - which few need
    from jupyter_smx.kernel.sagemaker.events import events_of, follow_events  # noqa: PLC0415 - as above

    job = find_job(found.job, surface)
    where = local_context()
    try:
        for event in follow_events(surface.client, job, where) if found.follow else events_of(job, where):
            surface.write_row(event)
    except KeyboardInterrupt:
        return surface.still_running(job.name)
    return None


LOGS = Subcommand(
    "logs",
    "show the log of a job, or its last lines; -f follows it",
    _logs,
    (
        JOB,
        FOLLOW,
        Argument(
            name="tail",
            metavar="N",
            spellings=(TAIL,),
            help="the last N lines of each host; with -f, continue from there",
        ),
        Argument(name="host", metavar="HOST", spellings=(HOST,), help="only this host, e.g. algo-1, or a stream"),
        Argument(name="streams", spellings=(STREAMS,), help="only the names of the log streams, as SageMaker has them"),
    ),
)
EVENTS = Subcommand(
    "events",
    "show a job's steps as EventBridge events, one JSON object a line; -f follows them",
    _events,
    (JOB, FOLLOW),
)
