"""Frames of forwarded connections, and how many bytes of them may be under way; both sides of a stream agree on it.

Each connection is a channel with a number. The agent opens channels. Bytes that the other side has not delivered yet
are under way: so a connection whose reader is slow fills no memory, and a message behind them waits for few bytes.
"""

from __future__ import annotations

from typing import Any, Dict

CHANNEL = "channel"
"""Key of a channel's number; no other frame has it."""
OPEN = "open"
DATA = "data"
CREDIT = "credit"
"""The sender of this frame has delivered ``bytes`` of a channel."""
EOF = "eof"
"""The sender has no more bytes; the other direction may have some."""
RESET = "reset"
"""The connection broke, or cannot be opened."""

MAX_CHANNELS = 128
"""Channels of a host at once; more connections wait."""
PIECE = 64 * 1024
"""Maximum bytes of one frame."""
WINDOW = 256 * 1024
"""Maximum bytes of one channel under way in one direction."""
_TOTAL = 768 * 1024
"""Bytes of all channels of a stream under way in one direction, beyond which a channel has ``_SMALL_WINDOW``."""
_SMALL_WINDOW = 32 * 1024


def frame(number: int, kind: str, count: int = 0) -> Dict[str, Any]:
    """Return the header of a frame; ``count`` is the bytes of a credit."""
    header = {CHANNEL: number, "kind": kind}
    return {**header, "bytes": count} if kind == CREDIT else header


def credit_of(header: Dict[str, Any]) -> int:
    """Return the bytes of a credit; 0 if it has none."""
    count = header.get("bytes")
    return count if isinstance(count, int) else 0


class SendTotal:
    """Bytes under way in all channels of a stream, in one direction."""

    def __init__(self) -> None:
        self.bytes = 0

    def is_full(self) -> bool:
        """Return True if each channel has only its own small room."""
        return self.bytes >= _TOTAL


class SendWindow:
    """Bytes of one channel under way in one direction.

    A channel has always room of its own: others whose readers are slow hold up no request.
    """

    def __init__(self, total: SendTotal) -> None:
        self._total = total
        self._bytes = 0

    def room(self) -> int:
        """Return how many bytes may be sent now."""
        shared = max(_TOTAL - self._total.bytes, _SMALL_WINDOW - self._bytes)
        return max(0, min(PIECE, WINDOW - self._bytes, shared))

    def add_sent(self, count: int) -> None:
        """Count bytes that were sent."""
        self._bytes += count
        self._total.bytes += count

    def add_delivered(self, count: int) -> None:
        """Count bytes that the other side has delivered."""
        count = max(0, min(count, self._bytes))
        self._bytes -= count
        self._total.bytes -= count

    def close(self) -> None:
        """Count no bytes of this channel any more."""
        self.add_delivered(self._bytes)
