"""Match error texts to a rule and a cure; separate, because ``containers`` and ``images`` use it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class ErrorPattern(NamedTuple):
    """One reason; the rule and the cure may have placeholders, as ``{program}``."""

    signs: tuple[str, ...]
    """Patterns in the message, in lower case."""
    rule: str
    cure: str
    transient: bool = False


def first_match(reasons: Iterable[ErrorPattern], heard: str) -> ErrorPattern | None:
    """Return the first reason whose pattern occurs in the text; None if none does."""
    said = heard.lower()
    return next((each for each in reasons if any(re.search(sign, said) for sign in each.signs)), None)
