"""Namespaces of the local engine's hosts: whether agents get one, and the command that enters one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROBE_TIMEOUT = 20.0
"""Seconds."""
_OWN_NAMESPACES = Path("/proc/self/ns")


def detect_isolation(archive: Path, environment: Mapping[str, str]) -> dict[str, object]:
    """Run the agent's probe, which starts no host. Blocks for a moment.

    Returns ``isolation`` (``namespace`` or ``variables``) and the ``reason`` when it is less.
    """
    with tempfile.TemporaryDirectory(prefix="probe-", dir=archive.parent) as folder:
        command = [sys.executable, "-I", os.fspath(archive), "probe", folder]
        try:
            done = subprocess.run(
                command, env=dict(environment), capture_output=True, timeout=_PROBE_TIMEOUT, check=True
            )
            answer = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return {"isolation": "unknown", "reason": f"The agent did not answer: {error}."}
    return {"isolation": answer["mode"], "reason": answer["reason"]}


def shell_command(pid: int, ml: str) -> list[str] | None:
    """Build the command that opens a shell where the jobs of agent ``pid`` run; None when the agent is gone.

    ``ml`` is the folder that is its ``/opt/ml``.
    """
    namespaces = Path(f"/proc/{pid}/ns")
    try:
        own = [
            name for name in ("user", "mnt") if (namespaces / name).readlink() != (_OWN_NAMESPACES / name).readlink()
        ]
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _shell_in(ml)
    except PermissionError:
        return None
    if not own:
        return _shell_in(ml)
    enter = ["nsenter", f"--target={pid}", "--mount"]
    enter += ["--user", "--preserve-credentials"] if "user" in own else []
    return [*enter, *_shell_in("/opt/ml")]


def _shell_in(folder: str) -> list[str]:
    return ["sh", "-c", f'cd {shlex.quote(folder)} && exec "${{SHELL:-sh}}"']
