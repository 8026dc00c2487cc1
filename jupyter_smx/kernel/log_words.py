"""The words behind ``logs``, the same in a notebook and in a terminal: how much, of which host, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel import log
from jupyter_smx.kernel.parser import Parser, one_of
from jupyter_smx.model.log_stream import streams_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from jupyter_smx.model.job import Job

USAGE = "[JOB] [-f] [--tail N] [--host HOST] [--streams]"
HELP = "the log of a job, or its last lines; -f follows it"
TAIL, HOST, STREAMS = "--tail", "--host", "--streams"


class LogWish(Struct, frozen=True, kw_only=True):
    """What to show of a log. ``last`` are so many lines of its end, None for all; "" are the newest job, all hosts.

    ``names`` asks for the names of its streams alone.
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
        return one_of(self.host, log.hosts_of(job), HOST)


def add_options(parser: Parser) -> None:
    """Let a parser take the options."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.add_argument(TAIL, metavar="N", help="only the last N lines, of each host; with -f, go on from there")
    parser.add_argument(HOST, metavar="HOST", default="", help="only this one, as algo-1, or a stream")
    parser.add_argument(STREAMS, action="store_true", help="the names that SageMaker gives its log streams")


def wish_of(found: Namespace) -> LogWish:
    """Give what was asked for, from what a parser found.

    :raises ValidationError: ``--tail`` is no number.
    """
    last = None if found.tail is None else log.lines(found.tail, TAIL)
    return LogWish(job=found.job, host=found.host, last=last, follows=found.follow, names=found.streams)


def read(words: Sequence[str], prog: str) -> LogWish:
    """Read the words after ``logs``.

    :raises ValidationError: an unknown option, a missing value, or a word too many.
    """
    parser = Parser(prog=f"{prog} logs", usage=f"{prog} logs {USAGE}")
    parser.add_argument("job", nargs="?", default="")
    add_options(parser)
    return wish_of(parser.read(words))
