"""Analyse the code of a cell: whether it compiles, what it imports and reads, and where it assigns a name."""

from __future__ import annotations

import ast
import re
import threading
import traceback
import warnings
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IPYTHON = re.compile(
    r"""\s*(?:[%!?]|[\w.]+\?\s*$|[\w.\s,()\[\]'"]*(?<![=!<>])=\s*[%!]|(?:for\b.*\bin|return|print\()\s*!)"""
)
"""Lines with IPython's own syntax, also if a command or a magic returns a value: ``files = !ls``."""
_COMMAND = re.compile(r"[^#]*!")
_MAX_NOTEBOOK_NAMES = 200
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)
"""Code with names of its own."""


class CellSyntaxError(ValidationError):
    """The cell is no Python; the message is what Python itself would print, with lines as the notebook counts them."""

    def __str__(self) -> str:
        """Return the message with the cure on a line of its own, since the message has several lines."""
        return "\n".join(part for part in (self.message, self.cure) if part)


def prepend_blank_lines(cell: str, lines_before: int) -> str:
    """Push the code down by the lines of the magic, so that every traceback of the job counts as the notebook does."""
    return "\n" * lines_before + cell


@contextmanager
def suppress_compile_warnings() -> Iterator[None]:
    """Suppress Python's warnings while code is compiled here: the job compiles it, too, and its log shows them once.

    Only in the main thread: filters belong to the process, and two threads that each restore them would make the
    filters of one permanent.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings():
        for category in (SyntaxWarning, DeprecationWarning):  # all that a compiler warns of, and no more
            warnings.simplefilter("ignore", category)
        yield


def parse_cell(source: str, filename: str) -> ast.Module:
    """Compile the code as the job will, and return its tree.

    :raises CellSyntaxError: Python refuses it; top-level ``await`` and IPython's own syntax are named.
    :raises ValidationError: there is no code.
    """
    if not source.strip():
        raise ValidationError(
            "The cell is empty.",
            field="source",
            value="",
            rule="The job runs the code below the magic line.",
            cure="Add code, or run a file with --entry-point FILE.",
        )
    try:
        with suppress_compile_warnings():
            tree = ast.parse(source, filename)
            compile(tree, filename, "exec", dont_inherit=True)  # finds what no grammar can, as a return outside of any
    except SyntaxError as error:
        raise CellSyntaxError(
            _format_syntax_error(error), field="source", cure=_cure(source, filename, error)
        ) from None
    except ValueError as error:  # a NUL byte in the source
        raise CellSyntaxError(f"The cell is not valid Python: {error}.", field="source") from None
    return tree


def _format_syntax_error(error: SyntaxError) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).rstrip()


def _cure(source: str, filename: str, error: SyntaxError) -> str:
    try:
        with suppress_compile_warnings():
            compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError:
        lines = source.splitlines()
        number = error.lineno or 1
        if number <= len(lines) and _IPYTHON.match(lines[number - 1]):
            instead = " Run the command with subprocess.run." if _COMMAND.match(lines[number - 1]) else ""
            return f"A job is plain Python: magics, ! and ? work in the notebook only.{instead} Nothing was started."
        return "Nothing was started."
    return "A job has no event loop: put the await into an async function and call asyncio.run. Nothing was started."


def notebook_names(tree: ast.Module, namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return the names that the code reads and never assigns, but the notebook has: the module of each, else "".

    A name that is local to a function may be one of the notebook elsewhere in the code.
    """
    read = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    assigned = set(_iter_assigned(tree))
    known = [name for name in read if name in namespace and name not in assigned and name[0] != "_"]
    found = dict.fromkeys(known[:_MAX_NOTEBOOK_NAMES], "")
    modules = {name: namespace[name] for name in found if isinstance(namespace[name], ModuleType)}
    return {**found, **{name: module.__name__ for name, module in modules.items()}}


def _iter_assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the global names that code assigns or deletes: in the scope of the module, or by ``global``."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPES):
            yield from (name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        pending.extend(ast.iter_child_nodes(node))


def top_level_imports(tree: ast.Module) -> tuple[str, ...]:
    """List the modules that the code imports at its top level, in order, each once: a hint for preloading."""
    return tuple(dict.fromkeys(name for name in _iter_imports(tree.body) if name != "__future__"))


def _iter_imports(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.module
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _iter_imports(node.body)


def missing_variable_hint(name: str, source: str) -> str:
    """Return why a variable did not come back, if the code shows it: it is local to a function."""
    try:
        with suppress_compile_warnings():
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _assigns(node, name):
            return f"It is a local variable of {node.name}(). Return it and assign it at the top level."
    return ""


def _assigns(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )
