"""Makes a folder with those above it, however many are missing; ``os.makedirs`` calls itself for each of them."""

from __future__ import annotations

import os
from typing import List


def make_folders(path: str) -> None:
    """Make a folder, and those above it that are missing; one that is there is let be.

    :raises OSError: something else has its name, or it cannot be made.
    """
    missing: List[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, exist_ok=True)
