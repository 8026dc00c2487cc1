"""Derive signing keys and compute signatures, apart, so that requests and chunks share the cache of keys."""

from __future__ import annotations

import functools
import hashlib
import hmac


@functools.lru_cache(maxsize=64)
def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Return the signing key of a day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def string_to_sign(timestamp: str, scope: str, request: str) -> str:
    """Return the string to sign for a whole canonical request."""
    digest = hashlib.sha256(request.encode()).hexdigest()
    return f"AWS4-HMAC-SHA256\n{timestamp}\n{scope}\n{digest}"


def sign(key: bytes, text: str) -> str:
    """Return the signature of a text in hex."""
    return hmac.digest(key, text.encode(), "sha256").hex()
