"""Offer the magics before they are loaded: their names, their help, Tab on their lines, and cells without code.

IPython loads this module as an extension when a kernel starts, by the configuration that the package installs. It
imports nothing else of this package until a user names a magic, unless clients of AWS are led here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

EXTENSION = "jupyter_smx"
MATCHER = "jupyter_smx.magics"
"""Identifier of the matcher that the extension registers."""
_NAMES = {"cell": ("process", "train"), "line": ("process", "smx", "train")}
_AWS_VARIABLES = "JUPYTER_SMX_AWS"
"""As ``controller_launch`` has it, which this module does not import."""
_CELL_MAGICS = tuple(f"%%{name}" for name in _NAMES["cell"])
_LINE_MAGICS = tuple(f"%{name}" for name in _NAMES["line"])


class LazyMatcher:
    """Loads the magics at the first Tab on a line of one, and lets their own matcher answer it."""

    matcher_api_version = 2
    matcher_identifier = "jupyter_smx.lazy"
    matcher_priority = 0

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.__qualname__ = type(self).__qualname__  # IPython reads it of each matcher

    def __call__(self, context: CompletionContext) -> dict[str, Any]:
        """Return the completions of the matcher that loading registers; none if the magics are loaded already."""
        manager = self._shell.extension_manager
        line = logical_line(context.full_text, context.cursor_line)
        if EXTENSION in manager.loaded or not is_magic_line(line):
            return {"completions": []}
        manager.load_extension(EXTENSION)
        matchers = self._shell.Completer.custom_matchers
        loaded = next(one for one in matchers if getattr(one, "matcher_identifier", "") == MATCHER)
        found: dict[str, Any] = loaded(context)
        return found


def load_ipython_extension(shell: Any) -> None:
    """Register names, completion and the transformer of cells without code; load no magic."""
    for kind, names in _NAMES.items():
        table = shell.magics_manager.magics[kind]
        for name in names:
            table.setdefault(name, _placeholder(shell, kind, name))
    shell.Completer.custom_matchers.append(LazyMatcher(shell))
    register_add_body(shell)
    lead_sdk_to_front()


def lead_sdk_to_front() -> None:
    """Lead SageMaker's SDK to the front if a server or a shell led this kernel's clients there by variables."""
    if os.environ.get(_AWS_VARIABLES):
        from jupyter_smx.aws_endpoint.sagemaker_patch import install_patch  # noqa: PLC0415 - few kernels need it

        install_patch()


def _placeholder(shell: Any, kind: str, name: str) -> Any:
    """Make a magic that loads the real one when it runs, or when a user asks for its help.

    IPython lists no names of magics that its configuration loads at their first use, and older versions show no help.
    """

    def load() -> Any:
        shell.extension_manager.load_extension(EXTENSION)
        return shell.magics_manager.magics[kind][name]

    @no_var_expand
    def magic(*arguments: str) -> None:
        load()(*arguments)

    magic.getdoc = lambda: load().__doc__  # type: ignore[attr-defined]  # IPython asks for help by this name
    return magic


def is_magic_line(line: str) -> bool:
    """Return True if the first word of a line is one of our magics."""
    return _first_word(line) in (*_CELL_MAGICS, *_LINE_MAGICS)


def logical_line(text: str, row: int) -> str:
    r"""Return the line in a row (from 0) of a cell, after the lines that a ``\`` joins to it.

    Lines are joined only below a first line with one of our magics.
    """
    lines = text.split("\n")
    begin = next((number for number, line in enumerate(lines) if line.strip()), 0)
    above = lines[begin:row]
    if not above or not is_magic_line(above[0]) or not all(line.rstrip().endswith("\\") for line in above):
        return lines[row]
    return " ".join([*(line.rstrip()[:-1] for line in above), lines[row]])


def add_body(lines: list[str]) -> list[str]:
    """Add an empty line to a cell that has a line of our magics and no code.

    IPython would refuse such a cell and name the line magic as the cure. With a body, the magic reports what is
    missing.
    """
    is_bare = len(lines) == 1 and _first_word(lines[0]) in _CELL_MAGICS
    return [*lines, "\n"] if is_bare else lines


# IPython skips such a transformer when a terminal asks whether more lines follow.
add_body.has_side_effects = True  # type: ignore[attr-defined]  # IPython's hook


def register_add_body(shell: Any) -> None:
    """Register :func:`add_body` in a shell, once."""
    if add_body not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(add_body)


def _first_word(line: str) -> str:
    return next(iter(line.split(maxsplit=1)), "")
