"""Tab completion on a magic's line: options with their values, subcommands, and the names of jobs and pools."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.getipython import get_ipython

from jupyter_smx.kernel.options import defaults
from jupyter_smx.kernel.subcommands.completion import complete_argument, complete_option_value
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
from jupyter_smx.model.options.table import BY_SPELLING, ROWS, SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from IPython.core.completer import CompletionContext

    from jupyter_smx.kernel.subcommands.declaration import Argument, Subcommand
    from jupyter_smx.model.options.option import Option


_MAGICS = ("%%train", "%%process", "%train", "%process", "%smx")


def complete_option(chosen: defaults.Defaults, _: Any, event: Any) -> list[str]:
    """Complete an option after a dash, or the value of one; asks a controller that runs, and starts none.

    The engine of the line, or else of the defaults ``chosen``, decides which values there are.
    """
    before, word = _split(event)
    option, typed = _option_at(before, word)
    if option is None:
        return [spelling for spelling in SPELLINGS if spelling.startswith(event.symbol or "--")]
    engine = _engine_in(event.line.split()) or chosen.configured_options().get("engine", "")
    return _fit(complete_option_value(option, typed, engine or str(ROWS["engine"].default)), typed, event.symbol)


def complete_subcommand(_: Any, event: Any) -> list[str]:
    """Complete a subcommand of ``%smx``, or its argument; asks a controller that runs, and starts none."""
    before, word = _split(event)
    known = _complete_arguments(before[1:], word) if before[1:] else _names()
    return _fit(known, word, event.symbol)


@context_matcher()  # type: ignore[untyped-decorator]  # IPython's
def match_magic_line(context: CompletionContext) -> dict[str, Any]:
    """Leave out names of Python on a line of a magic that has completions of its own.

    IPython adds those of Jedi to what a hook offers, and sorts them before it: a machine came after 190 names.
    """
    words = context.line_with_cursor.split(maxsplit=1)
    shell = get_ipython()
    if shell is None or not words or words[0] not in _MAGICS:
        return {"completions": []}
    found = shell.Completer.dispatch_custom_completer(context.token) or []
    return {"completions": [SimpleCompletion(text) for text in found], "suppress": True, "ordered": True}


def _split(event: Any) -> tuple[list[str], str]:
    """Split a line at the cursor into the words before it, and the word that the cursor is in.

    Callers of ``shell.complete`` may give the word without the position of the cursor in the line.
    """
    text, symbol = event.text_until_cursor, event.symbol
    words = (text if text.endswith(symbol) else f"{text} {symbol}").split()
    return (words[:-1], words[-1]) if words and (symbol or not text[-1:].isspace()) else (words, "")


def _fit(candidates: Iterable[str], word: str, symbol: str) -> list[str]:
    """Keep what begins with a word; IPython replaces only ``symbol``, the end of the word after a colon or ``=``."""
    kept = word.removesuffix(symbol)
    return [each.removeprefix(kept) for each in candidates if each.startswith(word)]


def _option_at(before: Sequence[str], word: str) -> tuple[Option | None, str]:
    """Find the option whose value the cursor is in, and what is typed of the value."""
    spelling, equals, typed = word.partition("=")
    if equals and spelling.startswith("--"):
        return _valued_option(spelling), typed
    return _valued_option(before[-1]) if before else None, word


def _valued_option(spelling: str) -> Option | None:
    option = BY_SPELLING.get(spelling)
    return None if option is None or option.is_flag else option


def _engine_in(words: Sequence[str]) -> str:
    """Find the engine in the words of a line."""
    row = ROWS["engine"]
    for before, word in pairwise(["", *words]):
        spelling, equals, value = word.partition("=")
        if before in row.spellings:
            return word
        if equals and spelling == row.spelling:
            return value
    return ""


def _names() -> list[str]:
    return [row.name for row in rows_on("notebook")]


def _complete_arguments(before: list[str], word: str) -> Iterable[str]:
    name, *taken = before
    if name == "config":
        return _complete_assignment(word)
    if name == "help":
        return _names()
    row = TABLE.get(name)
    if row is None or not row.is_on("notebook"):
        return []
    options = {spelling: one for one in row.arguments for spelling in one.spellings}
    last = options.get(taken[-1]) if taken else None
    if last is not None and last.metavar:
        return complete_argument(last, word)
    return [*_free_options(row, taken), *_next_word(row, taken, options)]


def _complete_assignment(word: str) -> Iterable[str]:
    name, equals, value = word.partition("=")
    if not equals or name not in ROWS:
        return [f"{option}=" for option in defaults.NAMES]
    return [f"{name}={each}" for each in complete_option_value(ROWS[name], value, str(ROWS["engine"].default))]


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
