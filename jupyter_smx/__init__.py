"""Notebook cells as asynchronous jobs on warm hosts, here or on an existing engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def __getattr__(name: str) -> str:
    # Reading the version costs milliseconds that a kernel should not spend before its first cell.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("jupyter-smx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magics to a kernel: ``%load_ext jupyter_smx``."""
    from jupyter_smx.kernel.magics import load  # noqa: PLC0415

    load(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-smx"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from jupyter_smx.server.app import SmxServerExtension  # noqa: PLC0415

    return [{"module": "jupyter_smx", "app": SmxServerExtension}]
