"""The start of an agent: claim the host's folder, stand alone, and let the first zygote come up beside the rest."""

from __future__ import annotations

import contextlib
import json
import os
from typing import List, Optional

from jupyter_smx.agent import outcome
from jupyter_smx.agent.birth.forerunner import spawn
from jupyter_smx.agent.hosts import hostconfig
from jupyter_smx.agent.system import environment, process
from jupyter_smx.agent.system.folder import HostFolder

CLAIMED = 3
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


def _stand_alone() -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _write_into(path: str) -> None:
    """Let what this process says go to a file: a container's own log ends with it, and is read by other means."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def main(words: List[str]) -> int:
    """Serve the host of a folder: ``DIR [--ready-fd N]``; gives the exit code."""
    try:
        return _main(words)
    except OSError as error:
        if not outcome.is_full(error):
            raise
        process.log(f"the host has no room: {error}")
        return outcome.EXIT_FULL


def _main(words: List[str]) -> int:
    folder = HostFolder(words[0])
    try:
        config = hostconfig.read(folder.root)
    except hostconfig.ConfigError as error:
        process.log(str(error))
        return 2
    if not claim(folder):
        process.log(f"{folder.claim}: this host has an agent already")
        return CLAIMED
    _stand_alone()
    if config.contained:
        _write_into(folder.path("agent.log"))
    clean = environment.scrub(os.environ, config.marker())
    os.environ.clear()
    os.environ.update(clean)
    ready_fd = _option(words, "--ready-fd")
    if ready_fd is not None:
        os.set_inheritable(int(ready_fd), False)
    process.become_subreaper()
    process.set_oom_score(-500)
    folder.make()
    forerunner = None
    if config.contained:
        tmp = "/tmp"  # noqa: S108 - the container's own
        forerunner = spawn(process.entry(), environment.for_zygote(os.environ, tmp))
    # To load the rest takes about as long as a zygote takes to come up: now they do so side by side.
    from jupyter_smx.agent import opening  # noqa: PLC0415 - as said

    opening.serve(config, folder, ready_fd, forerunner)
    return 0
