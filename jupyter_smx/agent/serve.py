"""Serve as the agent: in a container, start the first zygote before other imports, because it takes longest."""

from __future__ import annotations

import os
import sys

from jupyter_smx.agent.forkserver.spawn import spawn
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.processes import environment

TYPE_CHECKING = False  # see agent/forkserver/spawn
if TYPE_CHECKING:
    from typing import List

    from jupyter_smx.agent.forkserver.spawn import SpawnedZygote

CONTAINED = "--contained"
"""Option of engines whose hosts are containers: their environment variables are the host's own."""


def _redirect_output(path: str) -> None:
    """Redirect the output of this process to a file: a container's own log ends here, and is read by other means."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _first_zygote(folder: str) -> SpawnedZygote:
    try:  # noqa: SIM105 - `contextlib` is one of what is not loaded yet
        _redirect_output(os.path.join(folder, host_layout.AGENT_LOG))
    except OSError:
        pass  # if it is not writable, the next steps report that in the container's own log
    clean = environment.scrub(os.environ, os.environ.get(environment.MARKER, ""))
    return spawn(sys.argv[0], environment.zygote_environment(clean, "/tmp"))  # noqa: S108 - the container's own


def main(words: List[str]) -> int:
    """Serve the host of a folder: ``DIR [--ready-fd N] [--parent-fd N] [--contained]``; return the exit code."""
    try:
        first = _first_zygote(words[0]) if CONTAINED in words else None
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
