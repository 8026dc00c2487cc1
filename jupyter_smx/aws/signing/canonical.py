"""Write requests in the canonical form that Signature Version 4 signs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

UNRESERVED = "-_.~"
PLAIN = re.compile(r"[A-Za-z0-9\-_.~]+=?[A-Za-z0-9\-_.~]*")
SIGNATURE_PARAMETER = "X-Amz-Signature"


def split_query(query: str) -> list[tuple[str, str]]:
    """Return the decoded parameters of a raw query in their order; one without ``=`` has an empty value."""
    if not query:
        return []
    pairs = (part.partition("=") for part in query.split("&") if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def format_query(query: str) -> str:
    """Return the canonical form of a raw query: encoded, sorted, without the signature itself."""
    if not query:
        return ""
    pairs = [_encode(part) for part in query.split("&") if part]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs) if name != SIGNATURE_PARAMETER)


def _encode(part: str) -> tuple[str, str]:
    """Return the canonical name and value of a raw parameter."""
    name, _, value = part.partition("=")
    if PLAIN.fullmatch(part):
        return name, value  # most parameters are so, and encoding is the slowest part of a check
    return quote(unquote_plus(name), safe=UNRESERVED), quote(unquote_plus(value), safe=UNRESERVED)


def paths(path: str, service: str) -> Iterator[str]:
    """Yield the canonical forms that a client may have signed for a raw path.

    S3 signs the path as it is on the wire; some clients encode more on the way. Other services encode it once more.
    """
    if service != "s3":
        yield quote(path, safe="/" + UNRESERVED)
        return
    yield path
    encoded = quote(unquote(path), safe="/" + UNRESERVED)
    if encoded != path:
        yield encoded


def format_request(method: str, path: str, query: str, headers: Mapping[str, str], signed: tuple[str, ...]) -> str:
    """Return the canonical request without its last line, the digest of the body."""
    lines = "".join(f"{name}:{_trim(headers[name])}\n" for name in signed)
    return f"{method}\n{path}\n{format_query(query)}\n{lines}\n{';'.join(signed)}"


def _trim(value: str) -> str:
    return " ".join(value.split()) if "  " in value or value != value.strip() else value
