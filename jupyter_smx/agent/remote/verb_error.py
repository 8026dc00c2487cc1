"""Errors of remote commands in the form of the engine port's errors; apart because each command module raises them."""

from __future__ import annotations

from typing import Any, Dict

REFUSED = "refused"


class VerbError(Exception):
    """A request of an engine was not carried out; ``kind`` is ``refused`` or ``unavailable``, as in the engine port.

    ``transient`` is true if the same request may succeed later.
    """

    def __init__(self, message: str, *, kind: str = REFUSED, transient: bool = False, **words: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.transient = transient
        self.words = words
        """``field``, ``value``, ``rule`` and ``cure`` of the error, as far as there are any."""

    def frame(self) -> Dict[str, Any]:
        """Return the error as the line that the engine reads."""
        return {self.kind: {"message": str(self), "transient": self.transient, **self.words}}
