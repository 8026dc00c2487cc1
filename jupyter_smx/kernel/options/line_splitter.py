"""The words of a magic's line: quotes are taken off, and braces outside quotes are marked, never evaluated."""

from __future__ import annotations

from jupyter_smx.model.errors import ValidationError

OPEN, CLOSE = "\ufdd0", "\ufdd1"
"""Unicode noncharacters that stand for ``{`` and ``}`` outside quotes, so that ``'{"a": 1}'`` stays plain text."""

_QUOTES = "'\""
_ESCAPABLE = frozenset(" \t'\"\\{}")


def split(line: str) -> list[str]:
    """Split a line into words as a shell does, with ``{expression}`` kept whole and its braces marked.

    A backslash escapes only blanks, quotes, braces and itself, so that Windows paths need no doubling.

    :raises ValidationError: a quote or a brace that is never closed, or a noncharacter that marks braces here.
    """
    for mark in (OPEN, CLOSE):
        if mark in line:
            raise ValidationError(
                f"The line has U+{ord(mark):04X}, which is no character.",
                field="line",
                value=mark,
                rule="Unicode keeps it for use inside of programs, and here it stands for a brace.",
                cure="Take it out; from Python, values may have it.",
            )
    return _Splitter(line).words()


def restore_braces(word: str) -> str:
    """Give a word back as it was typed, marks turned into braces."""
    return word.replace(OPEN, "{").replace(CLOSE, "}")


def join_continuations(line: str, cell: str) -> tuple[str, str, int]:
    r"""Take the lines that continue the magic's line after a ``\`` out of the cell.

    Gives the whole line, the rest of the cell, and the number of lines that the magic took.
    """
    taken = 1
    while line.rstrip().endswith("\\"):
        following, _, cell = cell.partition("\n")
        line = f"{line.rstrip()[:-1]} {following}"
        taken += 1
    return line, cell, taken


class _Splitter:
    """One pass over a line; ``_word`` is None between words, so that an empty quoted word counts."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._word: str | None = None

    def words(self) -> list[str]:
        found: list[str] = []
        while self._at < len(self._line):
            char = self._line[self._at]
            if char.isspace():
                if self._word is not None:
                    found.append(self._word)
                    self._word = None
                self._at += 1
            else:
                self._word = (self._word or "") + self._read_piece(char)
        return found if self._word is None else [*found, self._word]

    def _read_piece(self, char: str) -> str:
        if char in _QUOTES:
            return self._read_quoted(char)
        if char == "{":
            return self._read_braced()
        if char == "\\" and self._line[self._at + 1 : self._at + 2] in _ESCAPABLE:
            self._at += 1
            char = self._line[self._at : self._at + 1]
        self._at += 1
        return char

    def _read_quoted(self, quote: str) -> str:
        """Read up to the closing quote; inside double quotes a backslash escapes them and itself."""
        start = self._at
        text = ""
        self._at += 1
        while self._at < len(self._line):
            char = self._line[self._at]
            if char == quote:
                self._at += 1
                return text
            if char == "\\" and quote == '"' and self._line[self._at + 1 : self._at + 2] in ('"', "\\"):
                self._at += 1
                char = self._line[self._at]
            text += char
            self._at += 1
        raise _unclosed_error(quote, self._line[start:])

    def _read_braced(self) -> str:
        """Read up to the brace that closes this one; quotes inside belong to the expression and stay."""
        start = self._at
        quote = ""
        depth = 0
        while self._at < len(self._line):
            char = self._line[self._at]
            self._at += 1
            if quote:
                quote = "" if char == quote else quote
            elif char in _QUOTES:
                quote = char
            else:
                depth += (char == "{") - (char == "}")
            if depth == 0:
                return OPEN + self._line[start + 1 : self._at - 1] + CLOSE
        raise _unclosed_error("{", self._line[start:])


def _unclosed_error(mark: str, rest: str) -> ValidationError:
    return ValidationError(
        f"The line has a {mark} that is never closed: {rest!r}.",
        field="line",
        value=rest,
        rule="Quotes and braces come in pairs.",
        cure="Close it, or put a backslash before it.",
    )
