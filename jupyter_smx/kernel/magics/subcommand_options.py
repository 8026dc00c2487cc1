"""The words behind ``logs`` and ``events``, the same in a notebook and in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.options.subcommand_parser import Parser, match_choice
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.log_stream import streams_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.records.log_stream import LogStream


LOGS_USAGE = "[JOB] [-f] [--tail N] [--host HOST] [--streams]"
LOGS_HELP = "the log of a job, or its last lines; -f follows it"
TAIL, HOST, STREAMS = "--tail", "--host", "--streams"


class LogRequest(Struct, frozen=True, kw_only=True):
    """What to show of a log. ``last`` are so many lines of its end, None for all; "" are the newest job, all hosts.

    ``names`` asks for the names of its streams, or those of the host, alone.
    """

    job: str = ""
    host: str = ""
    last: int | None = None
    follows: bool = False
    names: bool = False

    def host_of(self, job: Job) -> str:
        """Give the name of the host or stream as the job has it, "" for all hosts.

        :raises ValidationError: the job has none of that name.
        """
        if not self.host or any(stream.name == self.host for stream in streams_of(job)):
            return self.host
        return match_choice(self.host, reader.hosts_of(job), HOST)

    def streams_of(self, job: Job) -> tuple[LogStream, ...]:
        """Give the streams that ``host`` names: all, those of a host, or one.

        :raises ValidationError: the job has no host or stream of that name.
        """
        host = self.host_of(job)
        return tuple(stream for stream in streams_of(job) if host in ("", stream.host, stream.name))


def add_log_options(parser: Parser) -> None:
    """Let a parser take the options."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.add_argument(TAIL, metavar="N", help="only the last N lines, of each host; with -f, go on from there")
    parser.add_argument(HOST, metavar="HOST", default="", help="only this one, as algo-1, or a stream")
    parser.add_argument(
        STREAMS, action="store_true", help="the names that SageMaker gives its log streams, or those of the host"
    )


def log_request(found: Namespace) -> LogRequest:
    """Give what was asked for, from what a parser found.

    :raises ValidationError: ``--tail`` is no number, or lines are wished for where names alone are shown.
    """
    beside = "-f" if found.follow else TAIL if found.tail is not None else ""
    if found.streams and beside:
        raise ValidationError(
            f"{beside} is not for {STREAMS}.",
            field="streams",
            rule=f"{STREAMS} shows the names of logs and no line of them.",
            cure=f"Drop one of the two; {HOST} takes the name of a stream to show its lines.",
        )
    last = None if found.tail is None else reader.parse_line_count(found.tail, TAIL)
    return LogRequest(job=found.job, host=found.host, last=last, follows=found.follow, names=found.streams)


def parse_log_words(words: Sequence[str], prog: str) -> LogRequest:
    """Read the words after ``logs``.

    :raises ValidationError: an unknown option, a missing value, or a word too many.
    """
    parser = Parser(prog=f"{prog} logs", usage=f"{prog} logs {LOGS_USAGE}")
    parser.add_argument("job", nargs="?", default="")
    add_log_options(parser)
    return log_request(parser.read(words))


EVENTS_USAGE = "[JOB] [-f]"
EVENTS_HELP = "its steps as events of EventBridge, one JSON object a line; -f follows them"


def add_event_options(parser: Parser) -> None:
    """Let a parser take the options."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")


def parse_event_words(words: Sequence[str], prog: str) -> Namespace:
    """Read the words after ``events``: ``job``, "" for the newest, and ``follow``.

    :raises ValidationError: an unknown option, or a word too many.
    """
    parser = Parser(prog=f"{prog} events", usage=f"{prog} events {EVENTS_USAGE}")
    parser.add_argument("job", nargs="?", default="")
    add_event_options(parser)
    return parser.read(words)
