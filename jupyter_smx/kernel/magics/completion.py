"""Tab completion on a magic's line: options, subcommands, and the names of jobs and pools."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.options import defaults
from jupyter_smx.kernel.subcommands.completion import complete_argument
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
from jupyter_smx.model.options.table import SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.kernel.subcommands.declaration import Argument, Subcommand


def complete_option(_: Any, event: Any) -> list[str]:
    """Complete an option after a dash; values are not known here."""
    return [spelling for spelling in SPELLINGS if spelling.startswith(event.symbol or "--")]


def complete_subcommand(_: Any, event: Any) -> list[str]:
    """Complete a subcommand of ``%smx``, or its argument; asks a controller that runs, and starts none."""
    before = event.text_until_cursor.removesuffix(event.symbol).split()[1:]
    known = _complete_arguments(before) if before else _names()
    return [word for word in known if word.startswith(event.symbol)]


def _names() -> list[str]:
    return [row.name for row in rows_on("notebook")]


def _complete_arguments(before: list[str]) -> Iterable[str]:
    name, *taken = before
    if name == "config":
        return [f"{option}=" for option in defaults.NAMES]
    if name == "help":
        return _names()
    row = TABLE.get(name)
    if row is None or not row.is_on("notebook"):
        return []
    options = {spelling: one for one in row.arguments for spelling in one.spellings}
    last = options.get(taken[-1]) if taken else None
    if last is not None and last.metavar:
        return complete_argument(last)
    return [*_free_options(row, taken), *_next_word(row, taken, options)]


def _free_options(row: Subcommand, taken: list[str]) -> list[str]:
    free = [one for one in row.arguments if one.spellings and not set(one.spellings) & set(taken)]
    return [one.spellings[0] for one in free]


def _next_word(row: Subcommand, taken: list[str], options: dict[str, Argument]) -> Iterable[str]:
    """Return the names for the next word; a word that is named twice is none of a pair."""
    valued = {spelling for spelling, one in options.items() if one.metavar}
    words = [word for before, word in pairwise(["", *taken]) if word not in options and before not in valued]
    places = [one for one in row.arguments if not one.spellings]
    at = len(set(words))
    return complete_argument(places[at]) if at < len(places) else []
