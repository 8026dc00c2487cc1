"""``logs``: what a job has written, once or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from jupyter_smx.cli import conventions
from jupyter_smx.cli.commands.jobs import add_job_argument, find_job
from jupyter_smx.cli.subcommand import CliContext, Subcommand
from jupyter_smx.cli.wait_reason import wait_reporter
from jupyter_smx.kernel.failures.exceptions import still_running_message
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.magics.subcommand_options import LOGS_HELP, LOGS_USAGE, add_log_options, log_request

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from jupyter_smx.cli.output import Console
    from jupyter_smx.kernel.options.subcommand_parser import Parser
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.records.log_stream import LogStream


def _arguments(parser: Parser) -> None:
    add_job_argument(parser)
    add_log_options(parser)


def _run(found: Namespace, context: CliContext) -> int:
    request = log_request(found)
    job = find_job(request.job, context.client)
    host = request.host_of(job)
    if request.names:
        _write_names(request.streams_of(job), context.output)
        return conventions.SUCCESS
    if not request.follows:
        _write_log(job, host, request.last, context)
        return conventions.SUCCESS
    try:
        _follow(job, host, request.last, context)
    except KeyboardInterrupt:
        context.output.info(still_running_message(job.name))
        return conventions.INTERRUPTED
    return conventions.SUCCESS


def _write_names(streams: Iterable[LogStream], output: Console) -> None:
    for stream in streams:
        if output.json:
            output.write_line(to_builtins(stream))
        else:
            output.log(f"{stream.name}\n")


def _write_log(job: Job, host: str, last: int | None, context: CliContext) -> None:
    if context.output.json:
        _lines(reader.read_available(reader.open_cursors(context.client, job, host, last)), context.output)
        return
    for piece in reader.read_all(context.client, job, host, last):
        context.output.log(piece)


def _follow(job: Job, host: str, last: int | None, context: CliContext) -> None:
    if context.output.json:
        _lines(
            reader.follow_chunks(context.client, job, reader.open_cursors(context.client, job, host, last)),
            context.output,
        )
    else:
        reader.follow(context.client, job, context.output.log, host, last, quiet=wait_reporter(context, job.id))


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


LOGS = Subcommand("logs", LOGS_USAGE, LOGS_HELP, _arguments, _run)
