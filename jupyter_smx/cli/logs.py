"""``logs``: what a job has written, once or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.cli import exits
from jupyter_smx.cli.jobs import find, one_or_newest
from jupyter_smx.cli.subcommand import Desk, Subcommand
from jupyter_smx.kernel import log
from jupyter_smx.kernel.parser import one_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from jupyter_smx.cli.output import Output
    from jupyter_smx.kernel.parser import Parser
    from jupyter_smx.model.job import Job


def _arguments(parser: Parser) -> None:
    one_or_newest(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.add_argument("--host", metavar="HOST", default="", help="only this one, as algo-1")


def _run(found: Namespace, desk: Desk) -> int:
    job = find(found.job, desk.client)
    host = one_of(found.host, log.hosts_of(job), "--host") if found.host else ""
    if not found.follow:
        _whole(job, host, desk)
        return exits.DONE
    try:
        _follow(job, host, desk)
    except KeyboardInterrupt:
        desk.output.say(goes_on(job.name))
        return exits.INTERRUPTED
    return exits.DONE


def goes_on(name: str) -> str:
    """Say that a job outlives the command that showed it."""
    return f"{name} goes on. `jupyter smx stop {name}` ends it, `jupyter smx logs {name} -f` follows it."


def _whole(job: Job, host: str, desk: Desk) -> None:
    if not desk.output.json:
        desk.output.log(log.whole(desk.client, job, host))
        return
    hosts = (host,) if host else log.hosts_of(job)
    _lines(((name, log.whole(desk.client, job, name)) for name in hosts), desk.output)


def _follow(job: Job, host: str, desk: Desk) -> None:
    if not desk.output.json:
        log.follow(desk.client, job, desk.output.log, host)
        return
    hosts = (host,) if host else log.hosts_of(job)
    tails = [log.Tail(desk.client, job.id, name) for name in hosts]
    _lines(log.pieces(desk.client, job, tails), desk.output)


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


LOGS = Subcommand("logs", "[JOB] [-f] [--host HOST]", "the log of a job; -f follows it", _arguments, _run)
