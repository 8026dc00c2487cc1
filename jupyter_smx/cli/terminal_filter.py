"""Filter text of jobs for a terminal: of control sequences only colours and line clearing pass."""

from __future__ import annotations

import re

_CSI = r"(?:\x1b\[|\x9b)"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
"""Begins a title, a link, an image or another command whose text no terminal shows."""

_SHOWN = r"\x1b\[(?:[0-9;:]*m|[012]?K)"
"""Colours, and what clears a line: progress bars write that behind a carriage return."""
# A newline ends a command that its job left open: a terminal would hide the whole rest of the log.
_STRING_BODY = r"[^\x07\x1b\x9c\n]*"
_BIDI = r"[\u202a-\u202e\u2066-\u2069]"
_CONTROL = re.compile(
    rf"(?P<shown>{_SHOWN})"
    rf"|{_CSI}[0-?]*[ -/]*[@-~]?"
    rf"|{_STRING}{_STRING_BODY}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    rf"|{_BIDI}"
)
_UNFINISHED_STRING = re.compile(rf"({_STRING}){_STRING_BODY}(\x1b?)\Z")
_UNFINISHED_SEQUENCE = re.compile(rf"(?:{_CSI}[0-?]*[ -/]*|\x1b[ -/]*)\Z")

_LONGEST_SEQUENCE = 256
"""Maximum characters of an incomplete sequence that is kept; a longer one is no colour."""


def clean_text(text: str) -> str:
    """Return the text without control sequences; colours, line clearing, carriage returns, tabs and newlines stay."""
    return _CONTROL.sub(lambda match: match["shown"] or "", text)


class TerminalFilter:
    """Filters a stream whose pieces may end within a control sequence."""

    def __init__(self) -> None:
        self._pending = ""

    def clean(self, piece: str) -> str:
        """Return what to show of the next piece; a sequence without its end is kept for the piece after it."""
        text = self._pending + piece
        self._pending = ""
        if unfinished := _UNFINISHED_STRING.search(text):
            # The text of the command is never shown, so the beginning is enough.
            self._pending = unfinished[1] + unfinished[2]
        elif (unfinished := _UNFINISHED_SEQUENCE.search(text)) and len(unfinished[0]) <= _LONGEST_SEQUENCE:
            self._pending = unfinished[0]
        return clean_text(text[: unfinished.start()] if unfinished else text)
