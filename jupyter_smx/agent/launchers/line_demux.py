"""Split the mixed output of mpirun into whole lines for each rank.

``print`` writes its line and the line's end apart, so the lines of two ranks may be mixed in one line of mpirun's.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator

_TAG = re.compile(rb"(\[\d+,\d+\]<(?:stdout|stderr)>:?)")
_LONGEST = 64 * 1024
"""Bytes of one rank that wait for the end of their line, at most."""


class _LineBuffer:
    """The line that each rank has begun, by its tag."""

    def __init__(self) -> None:
        self.partial_lines: Dict[bytes, bytes] = {}

    def add(self, tag: bytes, piece: bytes) -> bytes:
        """Return the text to show after ``tag`` wrote ``piece``; a progress bar is shown without its line end."""
        said = self.partial_lines.pop(tag, b"") + piece
        if said.endswith(b"\n") or b"\r" in piece or len(said) > _LONGEST:
            return tag + said
        if said:
            self.partial_lines[tag] = said
        return b""

    def add_text(self, text: bytes) -> Iterator[bytes]:
        """Yield the complete lines of a text of mpirun's that does not end inside a piece."""
        parts = _TAG.split(text)
        yield parts[0]
        for at in range(1, len(parts), 2):
            own, end, after = parts[at + 1].partition(b"\n")
            yield self.add(parts[at], own + end)
            yield after  # of mpirun itself, which has no tag


def merge_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Merge the chunks of mpirun's output with ``--tag-output`` into lines; each result can be written as it is."""
    held, rest = _LineBuffer(), b""
    for chunk in chunks:
        rest += chunk
        # The last piece may go on in the next chunk, and a tag may be cut by its end.
        begins = [0, *(found.start() for found in _TAG.finditer(rest))]
        last = max(rest.rfind(b"\n") + 1, begins[-1])
        complete, rest = rest[:last], rest[last:]
        yield from filter(None, held.add_text(complete))
        if len(rest) > _LONGEST:  # an endless line is written in parts, and the next part gets the same tag
            tag = _TAG.match(rest)
            yield rest
            rest = tag.group() if tag else b""
    yield from filter(None, held.add_text(rest))
    for tag_of, said in held.partial_lines.items():
        yield tag_of + said + b"\n"
