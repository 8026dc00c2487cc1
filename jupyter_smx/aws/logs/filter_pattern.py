"""Match messages with the simple patterns of CloudWatch: terms, phrases, ``?any`` and ``-without``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.aws.logs.arguments import invalid_parameter

if TYPE_CHECKING:
    from collections.abc import Callable

_TERM = re.compile(r'([?-]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))(?=\s|$)')
MAX_PATTERN = 1024


def compile_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests a message; upper and lower case differ, and an empty pattern matches all.

    :raises AwsError: the pattern selects by fields or by a regular expression, or cannot be read.
    """
    text = pattern.strip()
    if len(text) > MAX_PATTERN:
        raise invalid_parameter(f"The filterPattern has {len(text)} characters, and may have {MAX_PATTERN}.")
    if text[:1] in ("{", "[", "%"):
        raise invalid_parameter(
            f'Invalid filter pattern: {pattern}. Logs of jobs here are filtered by terms: word, "a phrase", ?any, '
            "-without. Read all events to select by fields or by a regular expression."
        )
    needed, optional, excluded = _terms(pattern, text)
    # As CloudWatch does it: with a needed term, the optional ones do not count.
    alternatives = optional if optional and not needed else [""]

    def matches(message: str) -> bool:
        return (
            all(term in message for term in needed)
            and any(term in message for term in alternatives)
            and not any(term in message for term in excluded)
        )

    return matches


def _terms(pattern: str, text: str) -> tuple[list[str], list[str], list[str]]:
    groups: dict[str, list[str]] = {"": [], "?": [], "-": []}
    at = 0
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None:
            raise invalid_parameter(
                f"Invalid filter pattern: {pattern}. A phrase ends with the quote that it began with."
            )
        phrase = found[2]
        groups[found[1]].append(found[3] if phrase is None else re.sub(r"\\(.)", r"\1", phrase))
        at = found.end()
        while at < len(text) and text[at].isspace():
            at += 1
    return groups[""], groups["?"], groups["-"]
