"""URLs that files can be written to while a job runs; separate, because three rules and the stage-out share it."""

from __future__ import annotations

from jupyter_smx.agent.stores import url_schemes


def is_url(place: str) -> bool:
    """Return True if a place is a URL and no folder of a machine."""
    return "://" in place


def unwritable_reason(place: str) -> str:
    """Return why files cannot be stored at a URL, as a sentence; '' if they can, as far as its text shows."""
    found = url_schemes.URL.fullmatch(place)
    if "::" in place or found is None:
        return "Use one URL, e.g. s3://BUCKET/FOLDER, not a chain of URLs."
    protocol, rest = found[1].lower(), found[2]
    if protocol in url_schemes.WEB:
        return "Web addresses are read-only."
    if protocol in url_schemes.LOCAL:
        return "Write a folder of this machine as a path, not as a URL."
    if protocol in url_schemes.OF_ONE_PROCESS:
        return f"{protocol}:// exists only inside one process, so the job cannot reach it."
    if not rest.strip("/"):
        return "The URL has no bucket."
    return ""
