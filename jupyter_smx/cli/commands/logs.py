"""``logs``: what a job has written, once or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from jupyter_smx.cli import exit_codes
from jupyter_smx.cli.commands.jobs import add_job_argument, find_job
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.cli.wait_reason import wait_reporter
from jupyter_smx.kernel.failures.exceptions import still_running_message
from jupyter_smx.kernel.logs import options, reader

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from jupyter_smx.cli.output import Console
    from jupyter_smx.kernel.options.parser import Parser
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.records.log_stream import LogStream


def _arguments(parser: Parser) -> None:
    add_job_argument(parser)
    options.add_options(parser)


def _run(found: Namespace, desk: CliContext) -> int:
    wish = options.log_request(found)
    job = find_job(wish.job, desk.client)
    host = wish.host_of(job)
    if wish.names:
        _write_names(wish.streams_of(job), desk.output)
        return exit_codes.SUCCESS
    if not wish.follows:
        _write_log(job, host, wish.last, desk)
        return exit_codes.SUCCESS
    try:
        _follow(job, host, wish.last, desk)
    except KeyboardInterrupt:
        desk.output.info(still_running_message(job.name))
        return exit_codes.INTERRUPTED
    return exit_codes.SUCCESS


def _write_names(streams: Iterable[LogStream], output: Console) -> None:
    for stream in streams:
        if output.json:
            output.write_line(to_builtins(stream))
        else:
            output.log(f"{stream.name}\n")


def _write_log(job: Job, host: str, last: int | None, desk: CliContext) -> None:
    if desk.output.json:
        _lines(reader.read_available(reader.open_cursors(desk.client, job, host, last)), desk.output)
        return
    for piece in reader.read_all(desk.client, job, host, last):
        desk.output.log(piece)


def _follow(job: Job, host: str, last: int | None, desk: CliContext) -> None:
    if desk.output.json:
        _lines(reader.follow_chunks(desk.client, job, reader.open_cursors(desk.client, job, host, last)), desk.output)
    else:
        reader.follow(desk.client, job, desk.output.log, host, last, quiet=wait_reporter(desk, job.id))


def _lines(pieces: Iterable[tuple[str, str]], output: Console) -> None:
    """Write each whole line with its host; what no newline ended comes last."""
    begun: dict[str, list[str]] = {}
    for host, text in pieces:
        first, *others = text.split("\n")
        parts = begun.setdefault(host, [])
        parts.append(first)
        for other in others:
            output.write_line({"host": host, "line": "".join(parts)})
            parts[:] = [other]
    for host, parts in begun.items():
        if line := "".join(parts):
            output.write_line({"host": host, "line": line})


LOGS = Subcommand("logs", options.USAGE, options.HELP, _arguments, _run)
