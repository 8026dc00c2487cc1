"""Lay out rows as a table: aligned text, and HTML that a narrow output shows without breaking names."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from jupyter_smx.kernel.text.formats import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

Page = tuple[str, str]
"""The same thing as text and as HTML."""

_LONGEST_NAME = 40
"""Characters of a name in HTML; the middle of a longer one is left out."""
_STYLES = {
    "text": "text-align: left",
    "number": "text-align: right; white-space: nowrap",
    "name": "text-align: left; white-space: nowrap",
}
"""Front ends align cells to the right and break words; in an untrusted notebook cells keep these properties."""
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that change the order in which the rest of a row is shown."""


class Column(Struct, frozen=True):
    """One column: its header, and the kind of its cells. A name stays on one line; numbers are right-aligned."""

    header: str
    kind: Literal["text", "number", "name"] = "text"


def table_page(headers: Sequence[str | Column], rows: Sequence[Sequence[str]]) -> Page:
    """Format rows under their headers; a plain text as a header is that of a text column.

    The text contains all names in full, so that they can be copied.
    """
    columns = [Column(header) if isinstance(header, str) else header for header in headers]
    cleaned = [[single_line(word) for word in row] for row in rows]
    return _text(columns, cleaned), _html(columns, cleaned)


def _text(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    lines = [[column.header for column in columns], *rows]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    return "\n".join(
        "  ".join(
            word.rjust(width) if column.kind == "number" else word.ljust(width)
            for word, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def _html(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    shown = (
        [
            shorten_names(cells) if column.kind == "name" else cells
            for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        if rows
        else []
    )
    head = "".join(f'<th style="{_STYLES[column.kind]}">{escape(column.header)}</th>' for column in columns)
    body = "".join(
        f"<tr>{''.join(map(_cell, columns, row, short))}</tr>"
        for row, short in zip(rows, zip(*shown, strict=True), strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(column: Column, word: str, shown: str) -> str:
    title = f' title="{escape(word)}"' if shown != word else ""
    return f'<td style="{_STYLES[column.kind]}"{title}>{escape(shown)}</td>'


def shorten_names(names: Sequence[str]) -> list[str]:
    """Leave out the middle of long names: they often differ at their ends. Names that become equal stay whole."""
    short = [_shorten(name) for name in names]
    owners = Counter(short_name for short_name, _ in set(zip(short, names, strict=True)))
    return [one if owners[one] == 1 else name for one, name in zip(short, names, strict=True)]


def _shorten(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    end = _LONGEST_NAME // 2
    return f"{name[: _LONGEST_NAME - end - 1]}…{name[-end:]}"


def single_line(word: str) -> str:
    """Write what a job printed or a user named so that it stays in its cell and steers neither terminal nor row."""
    if word.isprintable():
        return word
    return " ".join(line for line in map(readable, _DIRECTION_MARKS.sub("", word).splitlines()) if line)
