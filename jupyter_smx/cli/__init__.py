"""Provide ``jupyter smx``: jobs and warm pools in a terminal.

Key modules: ``main`` (dispatch), ``subcommand`` (what a subcommand is), ``commands`` (one module per group of
subcommands). Requests to the controller belong in ``jupyter_smx.kernel.client``.
"""

from jupyter_smx.cli.main import main

__all__ = ["main"]
