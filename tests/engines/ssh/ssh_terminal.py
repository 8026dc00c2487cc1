"""Runs ``jupyter smx`` as a shell does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 60.0


def run_smx(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and wait for its end."""
    command = [sys.executable, "-m", "jupyter_smx.cli", *words]
    return subprocess.run(
        command, cwd=folder, timeout=LIMIT, check=False, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )


def read_smx(folder: Path, *words: str) -> Any:
    """Run a command that must succeed with ``--json`` and read its document."""
    done = run_smx(folder, *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
