"""Split the bytes of a log into lines at newlines and carriage returns, however the pieces are cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE = 4096
"""Maximum bytes of a line that are parsed; the rest of the line is ignored."""

_ENDS = re.compile(rb"[\r\n]")
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
# What mpirun and torchrun put before a line of one of their processes.
_TAG = re.compile(r"\[1,[^\]\n]{1,40}\]<std(?:out|err)>:?|\[[a-z_]+\d*\]:")
_UP = "\x1b[A"


class LineSplitter(Struct):
    """The beginning of a line whose end has not come: at most :data:`MAX_LINE` bytes of it."""

    start: bytes = b""

    def lines(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that ``data`` completes, without their ends; empty ones are left out."""
        *whole, rest = _ENDS.split(data) if b"\r" in data else data.split(b"\n")
        if whole:
            first = self.start + whole[0]
            self.start = b""
            if first:
                yield first[:MAX_LINE]
            for line in whole[1:]:
                if line:
                    yield line[:MAX_LINE]
        self.start = (self.start + rest)[:MAX_LINE]


def strip_escapes(line: bytes) -> tuple[str, int]:
    """Return a line as text without colours and cursor moves, and how often the cursor goes up after it."""
    text = line.decode("utf-8", "replace")
    ups = 0
    if "\x1b" in text or "\x08" in text:
        ups = text.count(_UP)
        text = _ESCAPES.sub("", text)
    tag = _TAG.match(text)
    return (text[tag.end() :].lstrip(" ") if tag else text), ups
