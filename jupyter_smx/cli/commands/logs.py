"""``logs``: what a job has written, once or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import find, one_or_newest
from jupyter_smx.cli.subcommand import Desk, Subcommand
from jupyter_smx.cli.wait_reason import teller
from jupyter_smx.kernel.failures.exceptions import goes_on
from jupyter_smx.kernel.logs import options, reader

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from jupyter_smx.cli.output import Output
    from jupyter_smx.kernel.options.parser import Parser
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.records.log_stream import LogStream


def _arguments(parser: Parser) -> None:
    one_or_newest(parser)
    options.add_options(parser)


def _run(found: Namespace, desk: Desk) -> int:
    wish = options.wish_of(found)
    job = find(wish.job, desk.client)
    host = wish.host_of(job)
    if wish.names:
        _names(wish.streams_of(job), desk.output)
        return exit_codes.DONE
    if not wish.follows:
        _whole(job, host, wish.last, desk)
        return exit_codes.DONE
    try:
        _follow(job, host, wish.last, desk)
    except KeyboardInterrupt:
        desk.output.say(goes_on(job.name))
        return exit_codes.INTERRUPTED
    return exit_codes.DONE


def _names(streams: Iterable[LogStream], output: Output) -> None:
    for stream in streams:
        if output.json:
            output.line(to_builtins(stream))
        else:
            output.log(f"{stream.name}\n")


def _whole(job: Job, host: str, last: int | None, desk: Desk) -> None:
    if desk.output.json:
        _lines(reader.so_far(reader.tails_of(desk.client, job, host, last)), desk.output)
        return
    for piece in reader.everything(desk.client, job, host, last):
        desk.output.log(piece)


def _follow(job: Job, host: str, last: int | None, desk: Desk) -> None:
    if desk.output.json:
        _lines(reader.pieces(desk.client, job, reader.tails_of(desk.client, job, host, last)), desk.output)
    else:
        reader.follow(desk.client, job, desk.output.log, host, last, quiet=teller(desk, job.id))


def _lines(pieces: Iterable[tuple[str, str]], output: Output) -> None:
    """Write each whole line with its host; what no newline ended comes last."""
    begun: dict[str, list[str]] = {}
    for host, text in pieces:
        first, *others = text.split("\n")
        parts = begun.setdefault(host, [])
        parts.append(first)
        for other in others:
            output.line({"host": host, "line": "".join(parts)})
            parts[:] = [other]
    for host, parts in begun.items():
        if line := "".join(parts):
            output.line({"host": host, "line": line})


LOGS = Subcommand("logs", options.USAGE, options.HELP, _arguments, _run)
