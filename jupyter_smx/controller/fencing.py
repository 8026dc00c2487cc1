"""Errors of being outlived: another controller took over, or a later job holds the cluster."""

from __future__ import annotations

from jupyter_smx.model.errors import SmxError


class FencedError(SmxError):
    """A newer controller owns the records or the agent; whoever gets this ends without writing again."""

    code = "Fenced"
    status = 503


class StaleError(SmxError):
    """The write was decided on old news: a verdict was given since, or the cluster has a higher lease."""

    code = "Stale"
    status = 409
