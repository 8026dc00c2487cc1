"""Is there a person at the screen? If not, a magic waits for its job at the end of its cell."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_VARIABLE = "SMX_WAIT"
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class Interactivity(Struct, frozen=True, kw_only=True):
    """What a kernel knows of its user.

    ``kernel``: there is a front end that draws displays. ``allow_stdin``: the request that runs now may ask the user a
    question, which JupyterLab, Notebook, VS Code and the console say, and nbclient, papermill and nbconvert do not.
    ``terminal``: standard input is a terminal.
    """

    kernel: bool
    allow_stdin: bool = False
    terminal: bool = False

    def has_person(self) -> bool:
        """Say whether somebody can answer a question now."""
        return self.allow_stdin if self.kernel else self.terminal


def should_wait(*, option: bool, setting: str | None, presence: Interactivity) -> bool:
    """Decide whether a magic waits for its job: ``--wait``, else ``SMX_WAIT``, else whether nobody is there.

    :raises ValidationError: ``SMX_WAIT`` is neither yes nor no.
    """
    if option:
        return True
    if setting:
        found = _BOOLEANS.get(setting.strip().lower())
        if found is None:
            raise ValidationError(
                f"{WAIT_VARIABLE}: {setting!r} is neither 1 nor 0.",
                field=WAIT_VARIABLE,
                value=setting,
                cure="Set one of them.",
            )
        return found
    return not presence.has_person()


def interactivity_of(shell: Any) -> Interactivity:
    """Look at an IPython shell (None: a plain Python process)."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return Interactivity(kernel=False, terminal=bool(sys.stdin) and sys.stdin.isatty())
    content = kernel.get_parent().get("content", {})
    return Interactivity(kernel=True, allow_stdin=bool(content.get("allow_stdin", True)))


def wait_setting(environ: Mapping[str, str] = os.environ) -> str | None:
    """Read ``SMX_WAIT``."""
    return environ.get(WAIT_VARIABLE)
