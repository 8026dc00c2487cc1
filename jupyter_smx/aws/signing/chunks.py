"""Compute the signatures of chunks and trailers, apart, because bodies use them long after the head was checked."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from jupyter_smx.aws.signing import keys

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass
class ChunkSignatures:
    """The chain of signatures of one body: each chunk signs the signature before it."""

    key: bytes
    timestamp: str
    scope: str
    previous: str
    """The signature of the head, later that of the chunk before."""

    def is_valid_chunk(self, data_sha256: str, signature: str) -> bool:
        """Return True if the signature is that of the next chunk, and continue the chain."""
        parts = ("AWS4-HMAC-SHA256-PAYLOAD", self.timestamp, self.scope, self.previous, EMPTY_SHA256, data_sha256)
        return self._is_next(parts, signature)

    def is_valid_trailer(self, trailer: bytes, signature: str) -> bool:
        """Return True if the signature is that of the trailer's lines, each with its newline."""
        digest = hashlib.sha256(trailer).hexdigest()
        parts = ("AWS4-HMAC-SHA256-TRAILER", self.timestamp, self.scope, self.previous, digest)
        return self._is_next(parts, signature)

    def _is_next(self, parts: tuple[str, ...], signature: str) -> bool:
        expected = keys.sign(self.key, "\n".join(parts))
        self.previous = expected
        return hmac.compare_digest(expected.encode(), signature.encode())
