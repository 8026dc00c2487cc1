"""What a request is told that may not come in: whether its sender has to log in, or is known and has no right."""

from __future__ import annotations

from jupyter_smx.model.errors import ErrorBody

NOT_LOGGED_IN = "UnrecognizedClientException"
NO_RIGHT = "AccessDeniedException"
"""Codes as of AWS; a browser reads them, since Jupyter answers both with 403."""


def auth_error(resource: str, reason: str, *, is_known: bool) -> ErrorBody:
    """Word a 401 or 403: ``reason`` is Jupyter's, ``is_known`` says whether anybody is logged in."""
    if not is_known:
        return ErrorBody(
            code=NOT_LOGGED_IN,
            message="Nobody is logged in.",
            rule="Jobs and pools are shown to the user of this Jupyter server only.",
            cure="Log in again.",
        )
    ask = f"Ask the administrator of this Jupyter server for the right to the resource {resource}."
    # A page that was loaded before somebody logged in again has the mark of the login before.
    reload = "Reload the page."
    cure = reload if "xsrf" in reason.lower() else ask
    return ErrorBody(code=NO_RIGHT, message=reason, field="resource", value=resource, cure=cure)
