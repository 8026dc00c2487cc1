"""Search a log of any size from its end, a bounded part at a time, in the text as a terminal shows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.controller.telemetry import log_file
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path

    from regex import Pattern

LONGEST_TEXT = 200
BLOCK = 2**20
"""Bytes in memory at once."""
SEARCH_LIMIT = 32 * BLOCK
"""Bytes per search request: a fraction of a second, so that the client can stop."""
MAX_MATCHES = 2_000
"""Places that one answer has at most."""
OVERLAP = 16_384
"""Bytes after a block in which a match that begins in the block may end."""

_ANSI_CODES = rb"(?:\x1b\[[0-?]*[ -/]*[@-~])*"
"""Invisible codes that may occur between two letters of one word."""


def compile_pattern(text: str, *, match_case: bool) -> Pattern[bytes]:
    """Compile text to search for in bytes.

    :raises ValidationError: it is empty, has more than 200 characters, or more than one line.
    """
    if not text or len(text) > LONGEST_TEXT or "\n" in text or "\r" in text:
        raise ValidationError(
            f"text: {text[:40]!r} cannot be searched for.",
            field="text",
            value=text[:LONGEST_TEXT],
            rule=f"The search text has 1 to {LONGEST_TEXT} characters on one line.",
            cure="Search for a part of it.",
        )
    import regex  # noqa: PLC0415 - only a search needs it, and each controller would load it at its start

    letters = (_letter(letter, match_case=match_case) for letter in text)
    return regex.compile(_ANSI_CODES.join(letters), 0 if match_case else regex.IGNORECASE)


def search(path: Path, words: Pattern[bytes], after: int, before: int | None) -> tuple[list[int], int, int]:
    """Return the offsets of matching lines, last first; where to continue; and the length of the log.

    Lines that begin or continue between ``after`` and ``before`` (its end) are searched. A line counts once. Text
    before a carriage return that restarts the line does not count.
    """
    try:
        log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], 0, 0
    try:
        total = os.fstat(log).st_size
        end = total if before is None else min(before, total)
        known, left = log_file.gaps(log), SEARCH_LIMIT
        places: list[int] = []
        while end > after and left > 0 and len(places) < MAX_MATCHES:
            begin, block_end = log_file.block_before(known, end, min(BLOCK, left))
            begin = max(begin, after)
            if begin < block_end:
                found = _in_block(os.pread(log, block_end - begin + OVERLAP, begin), block_end - begin, words)
                places += [begin + place for place in reversed(found)]
                left -= block_end - begin
            end = begin
    finally:
        os.close(log)
    if len(places) > MAX_MATCHES:
        del places[MAX_MATCHES:]
        end = places[-1]
    return places, end, total


def _letter(letter: str, *, match_case: bool) -> bytes:
    import regex  # noqa: PLC0415 - as above

    cases = {letter} if match_case or letter.isascii() else {letter, letter.lower(), letter.upper()}
    return b"(?:" + b"|".join(regex.escape(case.encode("utf-8", "replace")) for case in sorted(cases)) + b")"


def _in_block(block: bytes, size: int, words: Pattern[bytes]) -> list[int]:
    """Find the first place in each line, among those that begin in the first ``size`` bytes."""
    found = []
    at = 0
    while at < size and (match := words.search(block, at, concurrent=True)) and match.start() < size:
        line_end = block.find(b"\n", match.end())
        line_end = len(block) if line_end < 0 else line_end
        drawn_over = _last_return(block, match.end(), line_end)
        if drawn_over < 0:
            found.append(match.start())
            at = line_end + 1
        else:
            at = drawn_over + 1
    return found


def _last_return(block: bytes, begin: int, end: int) -> int:
    """Find the last carriage return that restarts a line; those at the end of the line do not count."""
    while end > begin and block[end - 1] == ord("\r"):
        end -= 1
    return block.rfind(b"\r", begin, end)
