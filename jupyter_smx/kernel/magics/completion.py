"""Tab completion on a magic's line: options with their values, subcommands, and the names of jobs and pools."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion

from jupyter_smx.kernel.magics.lazy_loading import MATCHER, is_magic_line, logical_line
from jupyter_smx.kernel.options import defaults
from jupyter_smx.kernel.subcommands.completion import complete_argument, complete_option_value
from jupyter_smx.kernel.subcommands.table import TABLE, rows_on
from jupyter_smx.model.options.table import BY_SPELLING, ROWS
from jupyter_smx.model.options.table import TABLE as OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from IPython.core.completer import CompletionContext

    from jupyter_smx.kernel.subcommands.declaration import Argument, Subcommand
    from jupyter_smx.model.options.option import Option


class MagicMatcher:
    """Completes the lines of our magics in one shell, and leaves out names of Python and of other magics there.

    ``chosen`` has the default engine. It asks a controller that runs, and starts none.
    """

    matcher_api_version = 2
    matcher_identifier = MATCHER
    matcher_priority = 0

    def __init__(self, chosen: defaults.Defaults) -> None:
        self._chosen = chosen
        self.__qualname__ = type(self).__qualname__  # IPython reads it of each matcher

    def __call__(self, context: CompletionContext) -> dict[str, Any]:
        """Return what fits at the cursor; nothing on lines of others."""
        line = logical_line(context.full_text, context.cursor_line)
        if not is_magic_line(line):
            return {"completions": []}
        text = line.removesuffix(context.line_with_cursor[context.cursor_position :])
        if not text.endswith(context.token):
            text = line  # callers of shell.complete may omit the position of the cursor
        engine = self._chosen.configured_options().get("engine", "")
        found = complete_line(text, context.token, _engine_in(line.split()) or engine or str(ROWS["engine"].default))
        return {"completions": [SimpleCompletion(word) for word in found], "suppress": True, "ordered": True}


def complete_line(text: str, symbol: str, engine: str) -> list[str]:
    """Complete a line at its end, ``text``, for jobs on ``engine``; the words returned replace ``symbol``."""
    before, word = _split(text, symbol)
    if not before:
        return []  # the name of the magic itself
    magic, *taken = before
    if magic.strip("%") == "smx":
        return _fit(_complete_arguments(taken, word) if taken else _names(), word, symbol)
    option, typed = _option_at(taken, word)
    if option is None:
        return _fit(_free_spellings(magic.strip("%"), taken, word), word, symbol)
    return _fit(complete_option_value(option, typed, engine), typed, symbol)


def _split(text: str, symbol: str) -> tuple[list[str], str]:
    """Split a line at the cursor into the words before it, and the word that the cursor is in."""
    words = text.split()
    return (words[:-1], words[-1]) if words and (symbol or not text[-1:].isspace()) else (words, "")


def _fit(candidates: Iterable[str], word: str, symbol: str) -> list[str]:
    """Keep candidates that begin with a word; IPython replaces ``symbol``, the word's end after a colon or ``=``."""
    kept = word.removesuffix(symbol)
    return [each.removeprefix(kept) for each in candidates if each.startswith(word)]


def _free_spellings(kind: str, taken: Sequence[str], word: str) -> list[str]:
    """Return the options that a line may still have, by their long spelling; after one dash also by the short one."""
    used = {each.partition("=")[0] for each in taken}
    rows = [row for row in OPTIONS if not row.kinds or kind in row.kinds]
    free = [row for row in rows if row.repeat or not used & set(row.spellings)]
    return [spelling for row in free for spelling in row.spellings if word or spelling.startswith("--")]


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
    """Return the names for the next argument; in a pair of arguments, the same name is not offered twice."""
    valued = {spelling for spelling, one in options.items() if one.metavar}
    words = [word for before, word in pairwise(["", *taken]) if word not in options and before not in valued]
    places = [one for one in row.arguments if not one.spellings]
    at = len(set(words))
    return complete_argument(places[at]) if at < len(places) else []
