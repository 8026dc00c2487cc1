"""The beginning of a host: its agent claims the folder, stands alone, and opens it."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, List, Optional

from jupyter_smx.agent import listen
from jupyter_smx.agent.host import config as hostconfig
from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.processes import environment, process

if TYPE_CHECKING:
    from jupyter_smx.agent.forkserver.spawn import SpawnedZygote

EXIT_CLAIMED = 3
"""Exit code of an agent whose host has one already."""


def claim(folder: HostFolder) -> bool:
    """Take the host for this process; False when another one has it. A claim is never taken over."""
    try:
        fd = os.open(folder.claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "start_time": process.start_time(os.getpid())}, file)
    return True


def _option(words: List[str], name: str) -> Optional[str]:
    return words[words.index(name) + 1] if name in words else None


def _detach() -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def run_agent(words: List[str], first: Optional[SpawnedZygote]) -> int:
    """Be the agent of a folder unless it has one; ``first`` is the process of its first zygote where there is one.

    Gives the exit code.
    """
    folder = HostFolder(words[0])
    try:
        config = hostconfig.read(folder.root)
    except hostconfig.ConfigError as error:
        process.log(str(error))
        return 2
    if not claim(folder):
        process.log(f"{folder.claim}: this host has an agent already")
        return EXIT_CLAIMED
    _detach()
    clean = environment.scrub(os.environ, config.marker())
    os.environ.clear()
    os.environ.update(clean)
    ready_fd = _option(words, "--ready-fd")
    if ready_fd is not None:
        os.set_inheritable(int(ready_fd), False)
    process.become_subreaper()
    process.set_oom_score(-500)
    folder.make()
    listen.serve(config, folder, ready_fd, first)
    return 0
