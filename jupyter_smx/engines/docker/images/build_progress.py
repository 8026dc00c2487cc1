"""Progress of the build of an image, from the lines of the daemon's stream. Pure."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.docker.images.pull_progress import LayerProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEP = re.compile(r"step (\d+)/(\d+) ?: (.*)", re.IGNORECASE)
"""A step of a Dockerfile; Podman's builder writes STEP."""
_BUILT = re.compile(r"Successfully built ([0-9a-f]{12,64})$")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_OWN_LINE = re.compile(r" *-{2,3}> |Removing intermediate container|COMMIT|step \d+/\d+ ?: ", re.IGNORECASE)
"""Lines of the daemon about its own work, which say nothing about a failed step."""
_MAX_LINES, _MAX_LENGTH = 5, 200
"""Lines of the log, and letters of a line, that an error quotes."""
_MAX_STEP = 60


class BuildProgress:
    """The step of a build, the last lines of its log, and the id of the image at its end."""

    def __init__(self) -> None:
        self.image = ""
        self.step = ""
        """The current step in the words of its Dockerfile, as ``step 3 of 5 (RUN make)``; "" before the first one."""
        self._layers = LayerProgress()
        self._is_pulling = False
        self._log: deque[str] = deque(maxlen=_MAX_LINES)

    def update(self, line: Mapping[str, Any]) -> None:
        """Process one line; ignore unknown ones."""
        told = line.get("aux")
        if isinstance(told, dict) and told.get("ID"):
            self.image = str(told["ID"])
        self._is_pulling = "status" in line
        self._layers.update(line)
        for text in str(line.get("stream", "")).splitlines():
            self._read(_CONTROL.sub("", text).rstrip())

    def _read(self, text: str) -> None:
        if step := _STEP.match(text):
            words = step[3] if len(step[3]) <= _MAX_STEP else f"{step[3][:_MAX_STEP]}…"
            self.step = f"step {step[1]} of {step[2]} ({words})"
            self._layers = LayerProgress()
        if built := _BUILT.match(text):
            self.image = built[1]
        if text and not _OWN_LINE.match(text):
            self._log.append(text[:_MAX_LENGTH])

    def format_progress(self) -> str:
        """Format the progress: ``step 3 of 5 (RUN make)``."""
        if self._is_pulling and self._layers.is_downloading():
            return f"{self.step}, {self._layers.format_progress()}"
        return self.step or "sending the folder to the daemon"

    def log_tail(self) -> str:
        """Return the last lines of the log in one line."""
        return " | ".join(self._log)
