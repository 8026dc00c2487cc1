"""Plain text of a terminal line: without escape sequences, control characters and what a carriage return overwrote."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Colours and movements, titles and links, and the short ones (ECMA-48)."""

_CONTROL = dict.fromkeys([code for code in (*range(32), *range(127, 160)) if code not in (9, 13)])


def readable(line: str) -> str:
    """Give what a terminal would show of a line in the end: without escapes, bells and what was drawn over."""
    plain = _ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2]
    return plain.translate(_CONTROL)
