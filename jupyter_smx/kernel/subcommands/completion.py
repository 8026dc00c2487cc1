"""Names for Tab completion, the same in a notebook and in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.subcommands.job_subcommands import STATUSES
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.subcommands.declaration import Argument

QUERY_TIMEOUT = 0.3
"""Seconds that a person waits for Tab without noticing."""
_MAX_JOBS = 100
"""Jobs whose names are offered."""


def complete_argument(argument: Argument) -> Iterable[str]:
    """Return values for an argument; asks a controller that runs, and starts none."""
    if argument.choices:
        return argument.choices
    if argument.completion == "status":
        return STATUSES
    if argument.completion == "pool":
        return query_names(lambda client: [pool.name for pool in client.pools()])
    if argument.completion == "job":
        return query_names(lambda client: [job.name for job in client.jobs(_MAX_JOBS)])
    if argument.completion == "live_job":
        return query_names(lambda client: [job.name for job in client.jobs(_MAX_JOBS) if not job.ended_at])
    return []


def query_names(ask: Callable[[Client], list[str]]) -> list[str]:
    """Ask a controller that runs for names; return none if there is none or it is too slow for Tab."""
    client = autostart.client_without_autostart(QUERY_TIMEOUT)
    try:
        return ask(client)
    except SmxError:
        return []
    finally:
        client.close()
