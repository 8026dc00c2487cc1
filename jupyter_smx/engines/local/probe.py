"""Which isolation hosts of this machine have, asked of the agent itself without starting a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PATIENCE = 20.0
"""Seconds."""


def detect_isolation(archive: Path, environment: Mapping[str, str]) -> dict[str, object]:
    """Give ``isolation`` (``namespace`` or ``variables``) and the ``reason`` when it is less. Blocks for a moment."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=archive.parent) as folder:
        command = [sys.executable, "-I", os.fspath(archive), "probe", folder]
        try:
            done = subprocess.run(command, env=dict(environment), capture_output=True, timeout=_PATIENCE, check=True)
            said = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return {"isolation": "unknown", "reason": f"The agent could not be asked: {error}."}
    return {"isolation": said["mode"], "reason": said["reason"]}
