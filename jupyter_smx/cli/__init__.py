"""``jupyter smx …``: jobs and warm pools in a terminal, one noun per file."""

from jupyter_smx.cli.main import main

__all__ = ["main"]
