"""Values of the notebook on a magic's line, in the options that take one value; nothing is evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from jupyter_smx.kernel.options.expression import text_of
from jupyter_smx.kernel.options.line_splitter import OPEN
from jupyter_smx.kernel.options.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.kernel.options.table import Options


def expand_expressions(options: Options, namespace: Mapping[str, Any]) -> Options:
    """Give options in which each ``{expr}`` of one value is the text of what it names.

    :raises ValidationError: anything in braces but a path to a value of the notebook.
    """
    found = {
        name: text_of(word, namespace, ROWS[name].spellings[-1])
        for name, word in asdict(options).items()
        if isinstance(word, str) and OPEN in word
    }
    return replace(options, **found)
