"""``~`` in a path: whose home it is."""

from __future__ import annotations

from pathlib import Path


def expand_user(word: str | Path) -> Path:
    """Put a home in the place of ``~``; where there is no such user it begins the name of a file, as in a shell."""
    try:
        return Path(word).expanduser()
    except RuntimeError:  # pathlib's word for it
        return Path(word)
