"""Write the help of the options: ``%%train?``, the docstrings and signatures of ``smx.train`` and ``smx.process``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from jupyter_smx.model.options.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.options.option import Kind, Option


_NOTES = (
    "End a line with a backslash to continue it. Options are not evaluated. Tab completes options, and engines with "
    "their machines, environments and instance types."
)


def manual(magic: Kind) -> str:
    """Write the page that ``%%train?`` and ``%%train --help`` show."""
    kind = "training" if magic == "train" else "processing"
    lines = [
        f"Run this cell as a {kind} job on warm hosts and go on working.",
        "",
        f"  %%{magic} [options]",
        "  ... any Python ...",
        "",
        "Options:",
        "",
    ]
    for option in TABLE:
        if option.kinds and magic not in option.kinds:
            continue
        lines.append(f"  {', '.join(option.spellings)} {option.metavar}".rstrip())
        lines.append(f"      {help_text(option)}")
    return "\n".join([*lines, "", _NOTES])


def help_text(option: Option) -> str:
    """Write what an option does, as sentences: its help, whether it repeats, and its default."""
    repeat = " May be given several times." if option.repeat else ""
    return f"{_sentence(option.help)}{repeat}{_default(option)}"


def _default(option: Option) -> str:
    default = option.shown_default()
    return f" Default: {default}." if default else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def document_keywords(function: Any, options: Sequence[Option], first: inspect.Parameter, summary: str) -> None:
    """Set the signature and the documentation of a function that takes ``**options``.

    Editors and mypy read the ``TypedDict`` of the annotation; IPython's Tab and ``help()`` read what this sets.
    ``summary`` documents the ``first`` parameter. The docstring gets the parameters before its ``:raises``.
    """
    parameters = [first, *(_parameter(option) for option in options)]
    returned = inspect.signature(function).return_annotation
    head, raises, tail = (function.__doc__ or "").partition("    :raises")
    texts = {first.name: f"{summary}.", **{option.name: keyword_text(option) for option in options}}
    # Wrapping these lines would cost milliseconds at import.
    fields = (f"    :param {name}: {text}" for name, text in texts.items())
    function.__signature__ = inspect.Signature(parameters, return_annotation=returned)
    function.__doc__ = head + "\n".join(fields) + f"\n{raises}{tail}"


def keyword_text(option: Option) -> str:
    """Write what a keyword does, with its default where the signature does not show it."""
    return f"{option.keyword_help or option.help}.{'' if option.is_plain and option.default else _default(option)}"


def _parameter(option: Option) -> inspect.Parameter:
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type
    )
