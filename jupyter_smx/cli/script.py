"""A script on the command line: the name that its jobs get."""

from __future__ import annotations

from pathlib import Path

from jupyter_smx.model.name import MAX_NAME, slug

_LONGEST = MAX_NAME - 7  # a hyphen and six digits of the id follow


def base_name(word: str, kind: str) -> str:
    """Name a job after its script; after its kind where the script's name has no letter that a job's may have."""
    return slug(Path(word).stem)[:_LONGEST].strip("-") or kind
