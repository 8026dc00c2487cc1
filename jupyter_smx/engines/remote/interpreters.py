"""Meaning of ``--python`` on machines of an engine: a path there, a named environment, or the engine's own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.errors import RefusedError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOTE_PREFIX = "remote:"
_DIGITS = 8


class Interpreter(Struct, frozen=True):
    """An interpreter by its path, "" for the machine's own, and the lines of an environment that run before it."""

    path: str = ""
    setup: str = ""
    environment: str = ""


def resolve(word: str, environments: Mapping[str, str]) -> str:
    """Return the form of an interpreter in requests and in the key of a pool; pure.

    A named environment has a digest of its lines, so that a pool with old lines is not reused for new ones.

    :raises RefusedError: it is neither a path nor an environment.
    """
    path = word.removeprefix(REMOTE_PREFIX)
    if not word or path.startswith("/"):
        return path
    if word in environments:
        return f"{word}@{_digest(environments[word])}"
    named = ", ".join(sorted(environments))
    raise RefusedError(
        f"--python: {word!r} is not an interpreter of this engine.",
        field="python",
        value=word,
        rule=f"Its environments are {named}." if named else "It has no named environments.",
        cure=suggest_names(word, environments) or "Name a path on its machines as remote:/PATH.",
    )


def interpreter(resolved: str, environments: Mapping[str, str]) -> Interpreter:
    """Return the command for a result of :func:`resolve`; pure.

    :raises RefusedError: the environment was removed, or has other lines now.
    """
    if not resolved or resolved.startswith("/"):
        return Interpreter(path=resolved)
    name, _, digest = resolved.rpartition("@")
    if name not in environments or _digest(environments[name]) != digest:
        return interpreter(resolve(resolved, environments), environments)
    return Interpreter(setup=environments[name], environment=name)


def _digest(lines: str) -> str:
    return hashlib.sha256(lines.encode()).hexdigest()[:_DIGITS]
