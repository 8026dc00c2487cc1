"""What is said on every command line: the name of the command, how it asks for help, and where options end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROG = "jupyter smx"
HELP = ("-h", "--help")


def words_before_dashes(words: Sequence[str]) -> Sequence[str]:
    """Give the words that may be options: those before ``--``."""
    return words[: words.index("--")] if "--" in words else words
