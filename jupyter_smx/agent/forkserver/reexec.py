"""Continue a job in a new interpreter, if the host's preloaded modules are not those that the job needs.

The process keeps its socket, its log, its variables and its working folder; only the preloaded modules are lost.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, NoReturn

from jupyter_smx.agent.code import execute
from jupyter_smx.agent.forkserver import fork_safety
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    import socket

_PATH = "PYTHONPATH"


def exec_interpreter(sock: socket.socket, state: Dict[str, Any], python: str = "") -> NoReturn:
    """Replace the interpreter; pass on a state of JSON types, which :func:`restore_state` reads.

    ``python`` is the interpreter; "" for the one of this process.

    :raises OSError: the disk is full.
    """
    environment = dict(os.environ)
    # Files of the user's may have the names of modules that our own start needs.
    told = dict(state, path=sys.path, python_path=environment.pop(_PATH, None))
    with tempfile.TemporaryFile("w+") as file:
        json.dump(told, file)
        file.seek(0)
        for number in (sock.fileno(), file.fileno()):
            os.set_inheritable(number, True)
        execute.flush()
        python = python or sys.executable
        words = [python, process.entry(), "reborn", str(sock.fileno()), str(file.fileno())]
        os.execve(python, words, environment)  # noqa: S606 - the same program


def restore_state(sock: socket.socket, number: int) -> Dict[str, Any]:
    """Restore the state after :func:`exec_interpreter`; ``number`` is the descriptor of the file with the state."""
    os.set_inheritable(sock.fileno(), False)
    with open(number, encoding="utf-8") as file:
        state: Dict[str, Any] = json.load(file)
    fork_safety.import_all([])
    sys.path[:] = state["path"]
    if state["python_path"] is not None:
        os.environ[_PATH] = state["python_path"]
    return state
