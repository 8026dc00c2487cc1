"""The front end of a kernel: which card it can draw, and whether it is interactive."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

STYLES = ("auto", "mime", "widget")

LOG_LIMIT = 1_000_000
"""Bytes of a job's log that a cell shows by default."""

_VARIABLES = ("VSCODE_PID", "VSCODE_CWD", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")
"""Set in kernels that VS Code, Google Colab or Kaggle started; none of them loads extensions of JupyterLab."""

_NOTEBOOK_OF_VS_CODE = "__vsc_ipynb_file__"
_MODULE_OF_COLAB = "google.colab"

WAIT_VARIABLE = "SMX_WAIT"
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def uses_widgets(
    style: str,
    namespace: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    modules: Container[str] = sys.modules,
) -> bool:
    """Return True if cards are made of ipywidgets; ``auto`` depends on the front end that started this kernel."""
    if style != "auto":
        return style == "widget"
    known = any(environment.get(name) for name in _VARIABLES)
    return known or _NOTEBOOK_OF_VS_CODE in namespace or _MODULE_OF_COLAB in modules


class Interactivity(Struct, frozen=True, kw_only=True):
    """How a kernel can reach its user.

    ``kernel``: there is a front end that draws displays. ``allow_stdin``: the current request may ask the user a
    question. JupyterLab, Notebook, VS Code and the console allow that; nbclient, papermill and nbconvert do not.
    ``terminal``: standard input is a terminal.
    """

    kernel: bool
    allow_stdin: bool = False
    terminal: bool = False

    def has_person(self) -> bool:
        """Return True if a user can answer a question now."""
        return self.allow_stdin if self.kernel else self.terminal


def should_wait(*, option: bool, setting: str | None, presence: Interactivity) -> bool:
    """Decide whether a magic waits for its job: ``--wait``, else ``SMX_WAIT``, else if the kernel is unattended.

    :raises ValidationError: ``SMX_WAIT`` is neither yes nor no.
    """
    if option:
        return True
    if setting:
        found = _BOOLEANS.get(setting.strip().lower())
        if found is None:
            raise ValidationError(
                f"{WAIT_VARIABLE}: {setting!r} is not a valid value.",
                field=WAIT_VARIABLE,
                value=setting,
                rule="It is 1 or 0.",
                cure=f"Set {WAIT_VARIABLE}=1 to wait for jobs, or {WAIT_VARIABLE}=0.",
            )
        return found
    return not presence.has_person()


def interactivity_of(shell: Any) -> Interactivity:
    """Detect the interactivity of an IPython shell (None: a plain Python process)."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return Interactivity(kernel=False, terminal=bool(sys.stdin) and sys.stdin.isatty())
    content = kernel.get_parent().get("content", {})
    return Interactivity(kernel=True, allow_stdin=bool(content.get("allow_stdin", True)))


def wait_setting(environ: Mapping[str, str] = os.environ) -> str | None:
    """Read ``SMX_WAIT``."""
    return environ.get(WAIT_VARIABLE)
