"""Parse the words of a subcommand with argparse; errors name the nearest valid word."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NoReturn

from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAME = re.compile("[a-z][a-z-]*")
_IMAGE = "--image"
_EXAMPLES = {spelling: row.example for row in TABLE for spelling in row.spellings}


class Parser(argparse.ArgumentParser):
    """Raises where argparse would print and end the process."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"add_help": False, "allow_abbrev": False, "exit_on_error": False, **how})

    def error(self, message: str) -> NoReturn:
        """Refuse a line.

        :raises ValidationError: always.
        """
        raise ValidationError(f"{self.prog}: {message}.", field="line", cure=self._usage())

    def format_help(self) -> str:
        """Write the page of the arguments.

        argparse expands ``%`` in a usage, and would take the first letters of ``%smx`` for a format.
        """
        usage = self.usage
        self.usage = usage.replace("%", "%%") if usage else usage
        try:
            return super().format_help()
        finally:
            self.usage = usage

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Read the words after the subcommand.

        :raises ValidationError: an unknown option, a missing value, a missing word or one too many.
        """
        self._check_spellings(words)
        try:
            found, rest = self.parse_known_args(words)
        except argparse.ArgumentError as error:
            raise self._missing_value_error(error) from None
        if rest:
            # A file, a path or a number is no option without its dashes.
            near = suggest_names(f"--{rest[0]}", self._long_options()) if _NAME.fullmatch(rest[0]) else ""
            raise ValidationError(
                f"{self.prog}: {rest[0]!r} is an unexpected argument.",
                field="line",
                value=rest[0],
                cure=near or self._usage(),
            )
        return found

    def _check_spellings(self, words: Sequence[str]) -> None:
        """Refuse unknown options before argparse can take their value for another word."""
        known = {spelling: action for action in self._actions for spelling in action.option_strings}
        is_value = False
        for word in words:
            if is_value or not word.startswith("-") or word == "-":
                is_value = False
                continue
            if word == "--":
                return
            spelling = word.split("=", 1)[0] if word.startswith("--") else word[:2]
            if spelling not in known:
                raise self._unknown_option_error(spelling if word.startswith("--") else word)
            is_value = word == spelling and known[spelling].nargs != 0

    def _unknown_option_error(self, spelling: str) -> ValidationError:
        from jupyter_smx.model.options.docker_options import docker_cure  # noqa: PLC0415 - only errors need it

        # Only a subcommand that runs jobs has the option for their image.
        docker = docker_cure(spelling) if _IMAGE in self._long_options() else ""
        cure = docker or suggest_names(spelling, self._long_options()) or f"`{self.prog} --help` lists them."
        return ValidationError(
            f"{self.prog}: {spelling} is not an option.",
            field="line",
            value=spelling,
            cure=cure,
        )

    def _missing_value_error(self, error: argparse.ArgumentError) -> ValidationError:
        spelling = (error.argument_name or "").split("/")[-1]
        action = next((found for found in self._actions if spelling in found.option_strings), None)
        if action is None:
            return ValidationError(f"{self.prog}: {error.message}.", field="line", cure=self._usage())
        if action.nargs == 0:
            return ValidationError(
                f"{self.prog}: {spelling} takes no value.",
                field=action.dest,
                value=spelling,
                cure=self._usage(),
            )
        example = _EXAMPLES.get(spelling)
        return ValidationError(
            f"{self.prog}: {spelling} needs a value: {action.metavar}.",
            field=action.dest,
            value=spelling,
            cure=f"For example {spelling} {example}." if example else self._usage(),
        )

    def _long_options(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings if word.startswith("--")]

    def _usage(self) -> str:
        return f"Usage: {self.usage}."


def match_choice(word: str, known: Iterable[str], option: str) -> str:
    """Find a word of a short list, ignoring case.

    :raises ValidationError: it is not in the list; the text has the list and the nearest names.
    """
    names = list(known)
    found = next((name for name in names if name.lower() == word.lower()), None)
    if found is not None:
        return found
    raise ValidationError(
        f"{option}: {word!r} is not one of its values.",
        field=option.removeprefix("--"),
        value=word,
        rule=f"It is one of {', '.join(names)}.",
        cure=suggest_names(word, names),
    )
