"""The oldest JupyterLab for all tests of a session."""

from __future__ import annotations

import pytest
from oldest_packages import OldestLab, oldest_lab


@pytest.fixture(scope="session")
def lab() -> OldestLab:
    """Give an environment with the oldest JupyterLab and this checkout's wheel."""
    return oldest_lab()
