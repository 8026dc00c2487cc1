"""The card that is shown while a controller starts, before the job or array of the cell exists."""

from __future__ import annotations

from html import escape
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jupyter_smx.kernel.display.card import MIME

_TEXTS = {
    "starting": "Starting the controller…",
    "failed": "The submission failed: see the error below.",
}


class StartCard(Struct, frozen=True, kw_only=True):
    """One snapshot: how far the submission is at ``at`` (seconds since the epoch).

    ``id`` and ``name`` are those of the job or array that is submitted. They have the same places as on a job's card,
    for a reader without support for this one.
    """

    id: str
    name: str
    at: float
    submission: Literal["starting", "failed"] = "starting"

    @property
    def is_final(self) -> bool:
        """Return True if no other card can follow."""
        return self.submission == "failed"

    def bundle(self) -> dict[str, Any]:
        """Return the MIME bundle: for our extension, for other front ends, and a line of text."""
        return {
            MIME: msgspec.json.decode(msgspec.json.encode(self)),
            "text/html": self._html(),
            "text/plain": self.line(),
        }

    def line(self) -> str:
        """Return one line of text."""
        return f"{'✗' if self.is_final else '◦'} {self.name} · {_TEXTS[self.submission]}"

    def _html(self) -> str:
        label = escape(f"Job {self.name}")
        return f'<div class="jp-smx-card" role="group" aria-label="{label}"><div>{escape(self.line())}</div></div>'
