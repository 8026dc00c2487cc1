"""URLs that files can be written to while a job runs; apart, because three rules and the stage-out share it."""

from __future__ import annotations

import re

_WEB = ("http", "https")
_LOCAL = ("file", "local")
_OF_ONE_PROCESS = ("memory", "data")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


def is_url(place: str) -> bool:
    """Say whether a place is no folder of a machine."""
    return "://" in place


def unwritable_reason(place: str) -> str:
    """Say why files cannot be kept at a URL, as a sentence; '' where they can as far as its text tells."""
    found = _URL.fullmatch(place)
    if "::" in place or found is None:
        return "A place is one URL, as s3://BUCKET/FOLDER, and no chain of them."
    protocol, rest = found[1].lower(), found[2]
    if protocol in _WEB:
        return "The web can be read, and nothing can be written there."
    if protocol in _LOCAL:
        return "A folder of this machine is named by its path."
    if protocol in _OF_ONE_PROCESS:
        return f"What is in {protocol}:// lives in one process only, which the job is not."
    if not rest.strip("/"):
        return "It names no bucket."
    return ""
