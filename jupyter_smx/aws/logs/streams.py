"""The streams of a job: their names, the runs that they have, and their positions as tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.aws.logs.arguments import invalid_token_error
from jupyter_smx.model.records.log_stream import streams_of

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

_TOKEN = re.compile(r"(?P<direction>[fb])/(?P<attempt>\d{8})(?P<offset>\d{48})")
"""As long as CloudWatch's, 56 digits."""


class Position(NamedTuple):
    """A place between two lines: the run of the job, and the offset in its log."""

    attempt: int
    offset: int


class JobStream(NamedTuple):
    """The output of one host, in the runs from ``first`` to ``last``; ``began_at`` is in milliseconds."""

    name: str
    job_id: str
    host: str
    first: int
    last: int
    began_at: int


def job_streams(job: Job) -> list[JobStream]:
    """List the streams of a job by name, one for each host, named by its first run."""
    found: dict[str, JobStream] = {}
    for stream in streams_of(job):
        found.setdefault(stream.host, _stream(job, stream.name, stream.host, stream.attempt, job.attempt))
    return sorted(found.values())


def find_stream(job: Job, name: str) -> JobStream | None:
    """Find a stream of a job by name; that of a later run has the lines of this run only."""
    for stream in job_streams(job):
        if stream.name == name:
            return stream
    for run in streams_of(job):
        if run.name == name:
            return _stream(job, name, run.host, run.attempt, run.attempt)
    return None


def job_of_stream(name: str) -> str:
    """Return the name of the job whose stream has this name."""
    return name.partition("/")[0]


def _stream(job: Job, name: str, host: str, first: int, last: int) -> JobStream:
    second = int(name.rpartition("-")[2])
    return JobStream(name=name, job_id=job.id, host=host, first=first, last=last, began_at=second * 1000)


def format_token(direction: str, position: Position) -> str:
    """Return the token of a position, for the pages after it (``f``) or before it (``b``)."""
    return f"{direction}/{position.attempt:08d}{position.offset:048d}"


def parse_token(token: str) -> tuple[str, Position]:
    """Return direction and position of a token.

    :raises AwsError: no answer had it.
    """
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise invalid_token_error()
    return found["direction"], Position(int(found["attempt"]), int(found["offset"]))


def event_id(at: int, position: Position) -> str:
    """Return an id of a line that is unique in its stream and grows with its time, 56 digits long."""
    return f"{at:016d}{position.attempt:08d}{position.offset:032d}"
