"""Parse the line of ``%%train`` and ``%%process`` by the table of options, with errors that name the cure."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from jupyter_smx.kernel.options.defaults import defaults_for_line
from jupyter_smx.kernel.options.keyword_check import fits
from jupyter_smx.kernel.options.line_syntax import OPEN, restore_braces, split, value_of
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options.convert import other_kind_error
from jupyter_smx.model.options.table import BY_SPELLING, ROWS, SPELLINGS, TABLE

if TYPE_CHECKING:
    from jupyter_smx.model.options.option import Kind, Option


class LineOptions(Struct, frozen=True):
    """The options of a line as typed, by their names in Python; nothing is looked up or converted.

    Only :func:`expand_expressions` puts a mapping in the place of a word.
    """

    values: Mapping[str, str | tuple[str, ...] | bool | Mapping[str, Any]] = {}

    def text(self, name: str) -> str:
        """Return the value of an option that takes one; "" if the line does not have it."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def text_or_mapping(self, name: str) -> str | Mapping[str, Any]:
        """Return the value of an option that takes text or a dictionary; "" if the line does not have it."""
        value = self.values.get(name, "")
        return value if isinstance(value, Mapping) else self.text(name)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the values of an option that may be given several times."""
        value = self.values.get(name, ())
        return value if isinstance(value, tuple) else ()

    def flag(self, name: str) -> bool:
        """Return True if the line has this flag."""
        return self.values.get(name) is True

    def replaced(self, **values: str | tuple[str, ...] | bool | Mapping[str, Any]) -> LineOptions:
        """Return a copy with other values."""
        return LineOptions({**self.values, **values})


class _Parser(argparse.ArgumentParser):
    """Raise where argparse would print and end the process, which here is the kernel."""

    def error(self, message: str) -> NoReturn:
        raise ValidationError(f"%%{self.prog}: {message}.", field="line", cure=f"%%{self.prog}? shows the manual.")


@functools.cache
def parser(magic: str) -> argparse.ArgumentParser:
    """Make the parser of one magic, ``train`` or ``process``."""
    made = _Parser(
        prog=magic, add_help=False, allow_abbrev=False, exit_on_error=False, usage=f"%%{magic} [options]\ncode"
    )
    for option in TABLE:
        text = option.help.replace("%", "%%")
        if option.is_flag:
            made.add_argument(*option.spellings, help=text, action="append_const", const=True, dest=option.name)
        else:
            made.add_argument(*option.spellings, metavar=option.metavar, help=text, action="append", dest=option.name)
    return made


def parse(magic: Kind, line: str, defaults: Mapping[str, str] = MappingProxyType({})) -> LineOptions:
    """Parse the line of ``%%train`` or ``%%process``; ``defaults`` replace options that the line does not have.

    :raises ValidationError: an unknown option (with the nearest right one), one of the other magic, a missing value,
        an option that is given twice.
    """
    words = split(line)
    _check_spellings(magic, words)
    try:
        namespace, rest = parser(magic).parse_known_args(words)
    except argparse.ArgumentError as error:
        raise _missing_value_error(magic, error) from None
    if rest:
        raise _stray_word_error(magic, restore_braces(rest[0]))
    typed = {name: value for name, value in vars(namespace).items() if value is not None}
    options = collect({**defaults_for_line(magic, defaults, typed), **typed})
    check_kind(magic, options)
    return options


def collect(typed: Mapping[str, Any]) -> LineOptions:
    """Make the options of what :func:`parser` collected; names that are none of the table's are left out.

    :raises ValidationError: an option that takes one value and is given twice.
    """
    values = {name: value for name, value in typed.items() if value is not None and name in ROWS}
    return LineOptions({name: _collapse(ROWS[name], value) for name, value in values.items()})


def check_kind(kind: Kind, options: LineOptions) -> None:
    """Refuse options that only the other kind of job has.

    :raises ValidationError: names the option and the magic that has it.
    """
    for option in (ROWS[name] for name in options.values):
        if option.kinds and kind not in option.kinds:
            raise other_kind_error(option, kind)


def _collapse(option: Option, words: list[Any]) -> str | tuple[str, ...] | bool:
    """Turn what argparse collected into a value: a tuple if the option repeats, else the only one."""
    if option.comma:
        return tuple(part.strip() for word in words for part in restore_braces(word).split(",") if part.strip())
    if option.repeat:
        return tuple(words)
    if len(words) > 1:
        raise repeated_error(option, [] if option.is_flag else words)
    value: str | bool = words[0]
    return value


def repeated_error(option: Option, words: list[str]) -> ValidationError:
    """Build the refusal of an option that takes one value and has several."""
    shown = [restore_braces(word) for word in words]
    return ValidationError(
        f"{option.spelling} is given twice{f': {shown[0]} and {shown[1]}' if shown else ''}.",
        field=option.name,
        value=shown[1] if shown else "",
        rule="" if option.is_flag else "Use it once.",
        cure="Remove one.",
    )


def _check_spellings(magic: str, words: list[str]) -> None:
    """Refuse unknown options before argparse can take their value for a stray word."""
    previous = ""
    for word in words:
        before = BY_SPELLING.get(previous)
        is_value = before is not None and not before.is_flag
        previous = "" if is_value else word
        if is_value or not _looks_like_option(word):
            continue
        spelling = word.split("=", 1)[0] if word.startswith("--") else word[:2]
        if spelling not in BY_SPELLING:
            raise _unknown_option_error(magic, restore_braces(spelling if word.startswith("--") else word))


def _looks_like_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _long_spellings() -> list[str]:
    return [spelling for spelling in SPELLINGS if spelling.startswith("--")]


def _unknown_option_error(magic: str, spelling: str) -> ValidationError:
    from jupyter_smx.model.options.docker_options import docker_cure  # noqa: PLC0415 - only errors need it
    from jupyter_smx.model.options.synonyms import SYNONYMS  # noqa: PLC0415

    keyword = spelling.removeprefix("--").replace("-", "_")
    named = f"SageMaker's {keyword} is {ROWS[SYNONYMS[keyword]].spelling} here." if keyword in SYNONYMS else ""
    return ValidationError(
        f"%%{magic}: {spelling} is not an option.",
        field="line",
        value=spelling,
        cure=docker_cure(spelling) or named or suggest_names(spelling, _long_spellings()) or f"%%{magic}? lists them.",
    )


def _missing_value_error(magic: str, error: argparse.ArgumentError) -> ValidationError:
    spelling = (error.argument_name or "").split("/")[-1]
    option = BY_SPELLING.get(spelling)
    if option is None or option.is_flag:
        return ValidationError(f"%%{magic}: {spelling}: {error.message}.", field="line", value=spelling)
    return ValidationError(
        f"%%{magic}: {spelling} needs a value: {option.metavar}.",
        field=option.name,
        value=spelling,
        cure=f"For example {spelling} {option.example}.",
    )


def _stray_word_error(magic: str, word: str) -> ValidationError:
    return ValidationError(
        f"%%{magic}: {word!r} is an unexpected argument.",
        field="line",
        value=word,
        rule="The code starts below the magic line; quote a value that contains blanks.",
        cure=suggest_names(f"--{word}", _long_spellings()),
    )


def _text_or_mapping(value: object, option: Option) -> str | Mapping[str, Any]:
    return value if isinstance(value, Mapping) and fits(value, option.type) else str(value)


def expand_expressions(options: LineOptions, namespace: Mapping[str, Any]) -> LineOptions:
    """Replace each ``{expr}`` in options that take one value by the text of the notebook value that it names.

    A dictionary stays one where the option takes it: the text of objects in it, as instance groups, cannot be read.

    :raises ValidationError: anything in braces but a path to a value of the notebook.
    """
    return options.replaced(
        **{
            name: _text_or_mapping(value_of(word, namespace, ROWS[name].spelling), ROWS[name])
            for name, word in options.values.items()
            if isinstance(word, str) and OPEN in word
        }
    )
