"""A shell where the jobs of a host of this machine run: in the namespaces of its agent, where it has its own."""

from __future__ import annotations

import shlex
from pathlib import Path

_OWN_NAMESPACES = Path("/proc/self/ns")


def shell_command(pid: int, ml: str) -> list[str] | None:
    """Give the command for the agent ``pid`` whose ``/opt/ml`` is the folder ``ml``; None when the agent is gone."""
    its = Path(f"/proc/{pid}/ns")
    try:
        apart = [name for name in ("user", "mnt") if (its / name).readlink() != (_OWN_NAMESPACES / name).readlink()]
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _shell_in(ml)
    except PermissionError:
        return None
    if not apart:
        return _shell_in(ml)
    enter = ["nsenter", f"--target={pid}", "--mount"]
    enter += ["--user", "--preserve-credentials"] if "user" in apart else []
    return [*enter, *_shell_in("/opt/ml")]


def _shell_in(folder: str) -> list[str]:
    return ["sh", "-c", f'cd {shlex.quote(folder)} && exec "${{SHELL:-sh}}"']
