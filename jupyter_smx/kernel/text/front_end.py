"""Which card a front end can draw: ours where our extension of JupyterLab is, one of ipywidgets elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

STYLES = ("auto", "mime", "widget")

_VARIABLES = ("VSCODE_PID", "VSCODE_CWD", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")
"""Set in kernels that VS Code, Google Colab or Kaggle started; none of them loads extensions of JupyterLab."""

_NOTEBOOK_OF_VS_CODE = "__vsc_ipynb_file__"
_MODULE_OF_COLAB = "google.colab"


def uses_widgets(
    style: str,
    namespace: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    modules: Container[str] = sys.modules,
) -> bool:
    """Say whether cards are made of ipywidgets; ``auto`` looks at who started this kernel."""
    if style != "auto":
        return style == "widget"
    known = any(environment.get(name) for name in _VARIABLES)
    return known or _NOTEBOOK_OF_VS_CODE in namespace or _MODULE_OF_COLAB in modules
