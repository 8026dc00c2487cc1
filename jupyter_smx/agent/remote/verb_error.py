"""Say no to an engine in the form of its own errors."""

from __future__ import annotations

from typing import Any, Dict

REFUSED = "refused"


class VerbError(Exception):
    """What an engine asked for is not done; ``kind`` is ``refused`` or ``unavailable``, as the engine port has them.

    ``transient`` says whether the same question may be answered later.
    """

    def __init__(self, message: str, *, kind: str = REFUSED, transient: bool = False, **words: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.transient = transient
        self.words = words
        """``field``, ``value``, ``rule`` and ``cure`` of the error, as far as there are any."""

    def frame(self) -> Dict[str, Any]:
        """Give the line that the engine reads."""
        return {self.kind: {"message": str(self), "transient": self.transient, **self.words}}
