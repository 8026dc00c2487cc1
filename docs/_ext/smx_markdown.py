"""Pieces of Markdown; a module of its own, since both extensions of Sphinx write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; a bar inside a cell is escaped."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(_cell(word) for word in line) + " |" for line in lines)


def _cell(word: str) -> str:
    return " ".join(word.split()).replace("|", "\\|")


def definition(terms: str, *paragraphs: str) -> str:
    """Write an entry of a definition list."""
    first, *others = [" ".join(text.split()) for text in paragraphs if text]
    return "\n\n".join([f"{terms}\n: {first}", *(f"  {text}" for text in others)])


def sentence(text: str) -> str:
    """Give a help text as a sentence of its own."""
    text = text.strip()
    text = text[:1].upper() + text[1:] if not text.startswith("%") else text
    return text if text.endswith((".", "!", "?")) else f"{text}."
