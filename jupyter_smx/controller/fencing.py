"""Errors of the records: another controller took over, a later job holds the cluster, the disk refuses."""

from __future__ import annotations

from jupyter_smx.model.errors import SmxError, UnavailableError


class FencedError(SmxError):
    """A newer controller owns the records or the agent; whoever gets this ends without writing again."""

    code = "Fenced"
    status = 503


class RecordsError(UnavailableError):
    """The file of the records refuses: full disk, read-only, damaged. What was decided was not written down."""


class StaleError(SmxError):
    """The write was decided on old news: a verdict was given since, or the cluster has a higher lease."""

    code = "Stale"
    status = 409
