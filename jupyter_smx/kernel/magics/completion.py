"""Tab in a magic's line: options, subcommands, and the names of jobs and pools."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.magics import subcommands
from jupyter_smx.kernel.magics.subcommand_options import HOST, STREAMS, TAIL
from jupyter_smx.kernel.options import defaults
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.options.table import SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.kernel.client.client import Client

QUERY_TIMEOUT = 0.3
"""Seconds that a person waits for Tab without wondering."""

_MAX_JOBS = 50
"""Jobs whose names are offered."""

_PAIR = 2

_FLAGS = {"logs": ("-f", TAIL, HOST, STREAMS), "events": ("-f",)}
_WITH_VALUES = (TAIL, HOST)


def complete_option(_: Any, event: Any) -> list[str]:
    """Complete what stands after a dash; values are not known here."""
    return [spelling for spelling in SPELLINGS if spelling.startswith(event.symbol or "--")]


def complete_subcommand(_: Any, event: Any) -> list[str]:
    """Complete a subcommand of ``%smx``, or its argument; asks a controller that runs, and starts none."""
    before = event.text_until_cursor.removesuffix(event.symbol).split()[1:]
    known = _complete_arguments(before) if before else subcommands.COMMANDS
    return [word for word in known if word.startswith(event.symbol)]


def _complete_arguments(before: list[str]) -> Iterable[str]:
    name, *taken = before
    if name == "config":
        return [f"{option}=" for option in defaults.NAMES]
    flags, named = _split(taken, _FLAGS.get(name, ()))
    if len(set(named)) >= (_PAIR if name == "diff" else 1):
        return flags
    if name in ("extend", "release"):
        return query_names(lambda client: [pool.name for pool in client.pools()])
    if name in ("stop", "interrupt"):
        return query_names(lambda client: [job.name for job in client.jobs(_MAX_JOBS) if not job.ended_at])
    if name in ("logs", "why", "cost", "advice", "diff", "provenance", "rerun", "export", "describe", "events"):
        return [*flags, *query_names(lambda client: [job.name for job in client.jobs(_MAX_JOBS)])]
    return []


def _split(taken: list[str], known: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Give the ``known`` flags that may follow, and the words before that are no flags: jobs, or a value to come."""
    flags = [flag for flag in known if flag not in taken]
    if taken and taken[-1] in _WITH_VALUES:
        return [], taken
    return flags, [word for last, word in pairwise(["", *taken]) if word not in known and last not in _WITH_VALUES]


def query_names(ask: Callable[[Client], list[str]]) -> list[str]:
    """Ask a controller that runs for names; give none where there is none or it is too slow for Tab."""
    client = autostart.client_without_autostart(QUERY_TIMEOUT)
    try:
        return ask(client)
    except SmxError:
        return []  # nobody runs, or is too busy: there is nothing to offer
    finally:
        client.close()
