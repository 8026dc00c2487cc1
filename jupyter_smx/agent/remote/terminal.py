"""Open a shell where the jobs of a host run, for the other end of a session."""

from __future__ import annotations

import os
import sys
from typing import List, Optional

from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName

_NAMESPACES = ("user", "mnt")


def shell(store: ClusterStore, words: List[str]) -> int:
    """Become a shell in the namespaces of a host: ``CLUSTER HOST``; return an exit code only on failure."""
    name = HostName(words[0], words[1])
    agent = store.agent(name)
    if agent is None or not agent.is_alive():
        sys.stderr.write(f"Host {name.host} of cluster {name.cluster} does not run.\n")
        return 1
    command = shell_command(agent.pid, store.folder(name).ml)
    if command is None:
        sys.stderr.write(f"The namespaces of host {name.host} cannot be entered by this user.\n")
        return 1
    os.execvp(command[0], command)  # noqa: S606 - it becomes that program
    return 1


def shell_command(pid: int, ml: str) -> Optional[List[str]]:
    """Build the command that opens a shell where the jobs of agent ``pid`` run; ``ml`` is its ``/opt/ml`` outside."""
    try:
        own = [
            name
            for name in _NAMESPACES
            if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
        ]
    except OSError:
        return None
    if not own:
        return _shell_in(ml)
    enter = ["nsenter", f"--target={pid}", "--mount"]
    enter += ["--user", "--preserve-credentials"] if "user" in own else []
    return [*enter, *_shell_in("/opt/ml")]


def _shell_in(folder: str) -> List[str]:
    return ["sh", "-c", 'cd "$1" && exec "${SHELL:-sh}"', "sh", folder]
