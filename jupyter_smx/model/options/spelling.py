"""Spell options as the user writes them: on a line, as a keyword of Python, or in configuration.

Rules and parsers build their errors in the spelling of a line. The functions of ``smx`` and the configuration pass
what they raise through :func:`respell`, so that one sentence serves all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.options.table import BY_SPELLING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.options.option import Option

Source = Literal["line", "keyword", "configuration"]

_OPTION = r"(?<![\w-])(--[a-z][a-z-]*[a-z])(?![\w-])"
_SUBJECT = rf"^{_OPTION}(?: ([\w.-]+))?: "
_ASSIGNED = rf"^{_OPTION}: ('.*?'?…?|[^\s:]+)(?= (?:is|does|cannot|seconds)\b|\.(?: |$))"
_MAGIC = r"%%(train|process)\b"
_EXAMPLE = rf"^For example {_OPTION}[ =](\S+?)\.?$"
_LITERAL = (
    r"(?P<literal>'[^']*'|\d+[smhd]?(?!\w|\.\d)|local\b|docker\b|ssh\b[:\w@-]*|torchrun\b|mpi\b|pyspark\b|v[23]\b"
    r"|uv(?!\S)|[\w/.-]+:\S*\w|[\w/-]*\w\.\w+|\.(?=\s|$)|[\w/-]+(?=\.?$))"
)
_PLACEHOLDER = r"(?P<placeholder>[A-Z][A-Z:/]*[A-Z](?:\.\.\.)?(?!\w))"
_VALUE = rf"{_OPTION} (?:{_PLACEHOLDER}|{_LITERAL})"
"""An option with its value: a literal unlike any English word, the last word of a text, or a placeholder."""
_PAIR = rf"{_OPTION} (?P<name>[\w.-]+)=(?P<value>\[[^\]]*\]|[^\s,;]*[^\s,;.:]|)"
_SAME_AGAIN = r"((\w+)=\{[^{}]*)\} \2=\{"
_IN_PARENTHESES = rf"\({_OPTION} ([\w.-]+)\)"
_SmxError = TypeVar("_SmxError", bound=SmxError)


def respell(error: _SmxError, source: Source) -> _SmxError:
    """Return the same error with the options spelled as ``source`` has them.

    >>> str(respell(SmxError("--max-run: 'x' is not a duration."), "keyword"))
    "max_run='x' is not a duration."
    """
    if source == "line":
        return error
    message, rule = (_respell_text(text, source) for text in (error.message, error.rule))
    cure = re.sub(_EXAMPLE, lambda match: _example(match, source), error.cure)
    return type(error)(
        message,
        field=error.field,
        value=error.value,
        rule=rule,
        cure=_respell_text(cure, source),
        transient=error.transient,
    )


def spell(option: Option, source: Source) -> str:
    """Return the spelling of an option: ``--keep-alive``, ``keep_alive=`` or ``c.SmxMagics.keep_alive``."""
    if source == "line":
        return option.spelling
    return f"{option.name}=" if source == "keyword" else f"c.SmxMagics.{option.name}"


def _respell_text(text: str, source: Source) -> str:
    if source == "keyword":
        text = re.sub(_SAME_AGAIN, r"\1, ", _replace_options(_PAIR, _pair, text))
        text = _replace_options(_IN_PARENTHESES, lambda match, option: f"({_subject(option, match[2], source)})", text)
    text = _replace_options(_ASSIGNED, lambda match, option: f"{_assignment(option, source)}{match[2]}", text)
    text = _replace_options(_SUBJECT, lambda match, option: f"{_subject(option, match[2], source)}: ", text)
    if source == "keyword":
        text = _replace_options(_VALUE, _valued, text)
    text = _replace_options(_OPTION, lambda _, option: _mention(option, source), text)
    return re.sub(_MAGIC, r"smx.\1", text) if source == "keyword" else text


def _replace_options(pattern: str, write: Callable[[re.Match[str], Option], str], text: str) -> str:
    """Replace what matches, but leave options of other programs alone."""

    def replace(match: re.Match[str]) -> str:
        option = BY_SPELLING.get(match[1])
        # A line has them and Python has none.
        return match[0] if option is None or not option.is_keyword else write(match, option)

    return re.sub(pattern, replace, text)


def _assignment(option: Option, source: Source) -> str:
    return f"{spell(option, source).rstrip('=')}{': ' if option.repeat else '='}"


def _subject(option: Option, name: str | None, source: Source) -> str:
    subject = spell(option, source).rstrip("=")
    if not name:
        return subject
    if option.repeat or source != "keyword":
        return f"{subject}[{name!r}]"
    return f"{subject}={name!r}" if re.fullmatch(_LITERAL, name) else f"{subject}, {name}"


def _pair(match: re.Match[str], option: Option) -> str:
    if not option.repeat:
        return match[0]
    value = match["value"]
    return f"{option.name}={{{match['name']!r}: {value if value.startswith('[') else repr(value)}}}"


def _valued(match: re.Match[str], option: Option) -> str:
    """Write an option with a value as a keyword: ``max_run='2h'``, ``python=PATH``."""
    if option.is_flag:
        return f"{option.name}=True {match['literal'] or match['placeholder']}"
    if match["placeholder"]:
        return f"{option.name}={match['placeholder']}"
    return f"{option.name}={_literal(option, match['literal'].strip(chr(39)))}"


def _mention(option: Option, source: Source) -> str:
    if source == "keyword" and option.is_flag:
        return f"{option.name}=True"
    return spell(option, source)


def _example(match: re.Match[str], source: Source) -> str:
    option = BY_SPELLING.get(match[1])
    if option is None or not option.is_keyword:
        return match[0]
    return f"For example {spell(option, source).rstrip('=')}={_literal(option, match[2])}."


def _literal(option: Option, word: str) -> str:
    """Write the value of a line as Python."""
    name, equals, value = word.partition("=")
    if option.repeat and equals:
        return f"{{{name!r}: {value!r}}}"
    if option.comma:
        return repr(word.split(","))
    if Sequence[str] in get_args(option.type):
        return repr([word])
    return word if option.value == "number" or option.counts else repr(word)
