"""Provide ``jupyter smx``: jobs and warm pools in a terminal.

Key modules: ``main`` (dispatch), ``subcommand`` (what a subcommand is), ``commands`` (one module per group of
subcommands). Requests to the controller belong in ``jupyter_smx.kernel.client``.
"""

import gc

# All that is loaded stays, and each look for garbage goes through it: a sixth of what a short command takes.
_is_enabled = gc.isenabled()
gc.disable()

from jupyter_smx.cli.main import main  # noqa: E402 - as said

if _is_enabled:
    gc.enable()

__all__ = ["main"]
