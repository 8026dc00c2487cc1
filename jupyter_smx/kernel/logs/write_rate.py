"""Pace what a kernel writes, so that a Jupyter server drops none of it ("IOPub data rate exceeded")."""

from __future__ import annotations

import json

BYTES_PER_SECOND = 400_000
BURST = 1_500_000
"""Bytes that may be written at once. In the 3 seconds that a server looks at, 2.7 MB can come; its limit is 3 MB."""

PIECE = 200_000
"""Characters of a message; each of them takes six bytes at most in JSON."""


class WriteRate:
    """A token bucket for all logs of one kernel."""

    def __init__(self) -> None:
        self._used = 0.0
        self._at = 0.0

    def reserve(self, size: int, now: float) -> float:
        """Reserve ``size`` bytes, and return the seconds to wait before they are written; ``now`` is in seconds."""
        self._used = max(0.0, self._used - max(0.0, now - self._at) * BYTES_PER_SECOND)
        self._at = now
        self._used += size
        return max(0.0, (self._used - BURST) / BYTES_PER_SECOND)


def split_pieces(text: str) -> list[str]:
    """Split a text into pieces that one message each can hold."""
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def message_size(text: str) -> int:
    """Return the bytes that a text takes in a message."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace"))
