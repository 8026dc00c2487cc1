"""Serve as the agent: in a container, start the first zygote early, because it takes longest."""

from __future__ import annotations

import os
import sys

from jupyter_smx.agent.forkserver.spawn import fork, spawn
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.processes import environment

TYPE_CHECKING = False  # see agent/forkserver/spawn
if TYPE_CHECKING:
    from typing import List

    from jupyter_smx.agent.forkserver.spawn import SpawnedZygote

CONTAINED = "--contained"
"""Option of engines whose hosts are containers: their environment variables are the host's own."""
FORK_ZYGOTE = "--fork-zygote"
"""Option of engines that start this process as a zygote has to start, so that its first zygote is forked from it."""


def _redirect_output(path: str) -> None:
    """Redirect the output of this process to a file: a container's own log ends here, and is read by other means."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _has_threads() -> bool:
    """Return True if a module that Python loads at each start runs threads, so that this process must not fork."""
    try:
        return len(os.listdir("/proc/self/task")) != 1
    except OSError:
        return True


def _first_zygote(folder: str, *, can_fork: bool) -> SpawnedZygote:
    try:  # noqa: SIM105 - `contextlib` is one of what is not loaded yet
        _redirect_output(os.path.join(folder, host_layout.AGENT_LOG))
    except OSError:
        pass  # if it is not writable, the next steps report that in the container's own log
    clean = environment.scrub(os.environ, os.environ.get(environment.MARKER, ""))
    variables = environment.zygote_environment(clean, "/tmp")  # noqa: S108 - the container's own
    if not can_fork or _has_threads():
        return spawn(sys.argv[0], variables)
    from jupyter_smx.agent import startup  # noqa: PLC0415, F401 - the zygote needs most of it, too

    return fork(variables)


def main(words: List[str]) -> int:
    """Serve the host of a folder; return the exit code.

    The words are ``DIR [--ready-fd N] [--parent-fd N] [--contained [--fork-zygote]]``.
    """
    try:
        first = _first_zygote(words[0], can_fork=FORK_ZYGOTE in words) if CONTAINED in words else None
        # To load the rest takes about as long as a zygote takes to come up: side by side they take half of it.
        from jupyter_smx.agent import startup  # noqa: PLC0415 - as said

        return startup.run_agent(words, first)
    except OSError as error:
        from jupyter_smx.agent import errors  # noqa: PLC0415 - needed only after an error
        from jupyter_smx.agent.system.processes import process  # noqa: PLC0415 - likewise

        if not errors.is_temporary(error):
            raise
        process.log(f"the files of the host cannot be written: {error}")
        return errors.exit_code(error)
