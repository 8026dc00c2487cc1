"""Which notebook a kernel runs for, and which of its cells runs now, as far as front ends say it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What nbformat allows; other front ends put addresses of their own into the same place."""


def notebook_of(namespace: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> str:
    """Give the notebook's path as Jupyter's server or VS Code say it; "" elsewhere."""
    return str(environment.get("JPY_SESSION_NAME") or namespace.get("__vsc_ipynb_file__") or "")


def cell_id_of(shell: Any) -> str:
    """Give the id of the cell that a shell (None: a plain Python process) runs now, "" where nobody says it."""
    kernel = getattr(shell, "kernel", None)
    metadata = kernel.get_parent().get("metadata") if kernel is not None else None
    found = metadata.get("cellId") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and _CELL_ID.fullmatch(found) else ""
