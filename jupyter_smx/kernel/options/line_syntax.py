"""Syntax of a magic's line: words in quotes, and ``{expression}`` as a path to a notebook value, never evaluated."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.model import request_texts
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPEN, CLOSE = "\ufdd0", "\ufdd1"
"""Unicode noncharacters that stand for ``{`` and ``}`` outside quotes, so that ``'{"a": 1}'`` stays plain text."""

_QUOTES = "'\""
_ESCAPABLE = frozenset(" \t'\"\\{}")

_MARKED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")


def split(line: str) -> list[str]:
    """Split a line into words as a shell does, with ``{expression}`` kept whole and its braces marked.

    A backslash escapes only blanks, quotes, braces and itself, so that Windows paths need no doubling.

    :raises ValidationError: a quote or a brace that is never closed, or a noncharacter that marks braces here.
    """
    for mark in (OPEN, CLOSE):
        if mark in line:
            raise ValidationError(
                f"The line has U+{ord(mark):04X}, which is not a character.",
                field="line",
                value=mark,
                rule="Unicode reserves it for programs, and the magics use it for a brace.",
                cure="Remove it; values passed from Python may contain it.",
            )
    return _Splitter(line).words()


def restore_braces(word: str) -> str:
    """Return a word as the user typed it, with marks turned into braces."""
    return word.replace(OPEN, "{").replace(CLOSE, "}")


def join_continuations(line: str, cell: str) -> tuple[str, str, int]:
    r"""Take the lines that continue the magic's line after a ``\`` out of the cell.

    Return the whole line, the rest of the cell, and the number of lines that the magic took.
    """
    taken = 1
    while line.rstrip().endswith("\\"):
        following, _, cell = cell.partition("\n")
        line = f"{line.rstrip()[:-1]} {following}"
        taken += 1
    return line, cell, taken


class _Splitter:
    """One pass over a line; ``_word`` is None between words, so that an empty quoted word counts."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._word: str | None = None

    def words(self) -> list[str]:
        found: list[str] = []
        while self._at < len(self._line):
            char = self._line[self._at]
            if char.isspace():
                if self._word is not None:
                    found.append(self._word)
                    self._word = None
                self._at += 1
            else:
                self._word = (self._word or "") + self._read_piece(char)
        return found if self._word is None else [*found, self._word]

    def _read_piece(self, char: str) -> str:
        if char in _QUOTES:
            return self._read_quoted(char)
        if char == "{":
            return self._read_braced()
        if char == "\\" and self._line[self._at + 1 : self._at + 2] in _ESCAPABLE:
            self._at += 1
            char = self._line[self._at : self._at + 1]
        self._at += 1
        return char

    def _read_quoted(self, quote: str) -> str:
        """Read up to the closing quote; inside double quotes a backslash escapes them and itself."""
        start = self._at
        text = ""
        self._at += 1
        while self._at < len(self._line):
            char = self._line[self._at]
            if char == quote:
                self._at += 1
                return text
            if char == "\\" and quote == '"' and self._line[self._at + 1 : self._at + 2] in ('"', "\\"):
                self._at += 1
                char = self._line[self._at]
            text += char
            self._at += 1
        raise _unclosed_error(quote, self._line[start:])

    def _read_braced(self) -> str:
        """Read up to the brace that closes this one; quotes inside belong to the expression and stay."""
        start = self._at
        quote = ""
        depth = 0
        while self._at < len(self._line):
            char = self._line[self._at]
            self._at += 1
            if quote:
                quote = "" if char == quote else quote
            elif char in _QUOTES:
                quote = char
            else:
                depth += (char == "{") - (char == "}")
            if depth == 0:
                return OPEN + self._line[start + 1 : self._at - 1] + CLOSE
        raise _unclosed_error("{", self._line[start:])


def _unclosed_error(mark: str, rest: str) -> ValidationError:
    return ValidationError(
        f"The line has a {mark} that is never closed: {rest!r}.",
        field="line",
        value=rest,
        rule="Quotes and braces must be closed.",
        cure="Close it, or put a backslash before it.",
    )


def value_of(word: str, namespace: Mapping[str, Any], option: str) -> Any:
    """Return the value of a word: the notebook's if the whole word is one ``{expression}``, else text.

    An expression inside other text is replaced by its ``str``.

    :raises ValidationError: anything in braces but a path of names, attributes and constant subscripts.
    """
    whole = _MARKED.fullmatch(word)
    if whole:
        return resolve(whole[1], namespace, option)
    return restore_braces(_MARKED.sub(lambda found: str(resolve(found[1], namespace, option)), word))


def text_of(word: str, namespace: Mapping[str, Any], option: str) -> str:
    """Return the text of a word, with notebook values as ``str`` formats them (a path stays a path)."""
    return str(value_of(word, namespace, option))


def resolve(expression: str, namespace: Mapping[str, Any], option: str) -> Any:
    """Walk one expression from a variable of the notebook to the value it names; no call, no operator, no ``eval``.

    :raises ValidationError: another kind of expression, an unknown name, or a step that the value does not have.
    """
    try:
        body = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _expression_error(expression, option) from None
    return _walk(body, namespace, expression, option)


def _walk(node: ast.expr, namespace: Mapping[str, Any], expression: str, option: str) -> Any:
    if isinstance(node, ast.Name):
        return _variable(node.id, namespace, option)
    take: Callable[[Any, Any], Any]
    if isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
        owner = _walk(node.value, namespace, expression, option)
        step = f".{node.attr}"
        take, key = getattr, node.attr
    elif isinstance(node, ast.Subscript):
        key = _constant(node.slice, expression, option)
        owner = _walk(node.value, namespace, expression, option)
        step = f"[{key!r}]"
        take = operator.getitem
    else:
        raise _expression_error(expression, option)
    try:
        return take(owner, key)
    except Exception as error:  # border: attributes and items are the user's code, which may raise anything
        raise ValidationError(
            f"{option}: {{{expression}}}: {ast.unparse(node.value)} is a {type(owner).__name__} and has no {step} "
            f"({type(error).__name__}).",
            field=_field(option),
            value=expression,
            rule="Braces take a notebook variable with attributes and items, without calls.",
            cure="Assign the value to a variable in an earlier cell, and use that variable.",
        ) from error


def _variable(name: str, namespace: Mapping[str, Any], option: str) -> Any:
    if name in namespace:
        return namespace[name]
    if name == request_texts.VARIABLE:
        return request_texts.PLACEHOLDER  # the controller fills it in
    raise missing_variable_error(name, namespace, option)


def missing_variable_error(name: str, namespace: Mapping[str, Any], option: str) -> ValidationError:
    """Return the error of a variable that the notebook does not have."""
    return ValidationError(
        f"{option}: the notebook has no variable {name!r}.",
        field=_field(option),
        value=name,
        rule="Braces take a notebook variable with attributes and items.",
        cure=suggest_names(name, variable_names(namespace)) or "Run the cell that makes it first.",
    )


def _field(option: str) -> str:
    """Return the field of an option, or of a word of a subcommand, as ``JOB``."""
    return option.removeprefix("--") if option.startswith("-") else option.lower()


def variable_names(namespace: Mapping[str, Any]) -> list[str]:
    """List the names that a user would call variables of the notebook."""
    return [name for name in namespace if not name.startswith("_")]


def _constant(node: ast.expr, expression: str, option: str) -> Any:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return sign * node.value
    if sign > 0 and isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _expression_error(expression, option)


def _expression_error(expression: str, option: str) -> ValidationError:
    return ValidationError(
        f"{option}: {{{expression}}} is not a notebook variable, attribute or item.",
        field=_field(option),
        value=expression,
        rule="Braces take a variable with attributes and constant subscripts, as {cfg.lr} or {params['lr'][0]}. "
        "Magics do not evaluate expressions.",
        cure="Assign it to a variable first, or quote the braces if they are text.",
    )
