"""Format why a request has no answer, and what it may have done nevertheless; separate, because it only formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx import controller_launch_errors
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.http_routes import UNREPEATABLE

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.model.http_routes import Action


def no_answer_error(path: Path, error: Exception, action: Action, submitted: str, *, waited: float) -> UnavailableError:
    """Return the error of a request without an answer.

    ``path`` is the socket, ``waited`` the seconds after which a silent controller was given up. ``submitted`` is the id
    of a job or array that may have been accepted; "" for none.
    """
    if isinstance(error, TimeoutError):
        return controller_launch_errors.add_doubt(controller_launch_errors.silent_error(waited), submitted)
    cure = "See controller.log in the same folder. `%smx doctor` starts a new controller."
    if action in UNREPEATABLE:
        cure = f"The request was not sent again, because {UNREPEATABLE[action]}. See with `%smx jobs` what it did."
    said = UnavailableError(
        f"The controller at {path} does not respond: {type(error).__name__}: {str(error).rstrip('.')}.",
        cure=cure,
        transient=True,
    )
    return controller_launch_errors.add_doubt(said, submitted)
