"""Scripts with clients of AWS, as a user writes them, in processes whose resolver gives this machine only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws_endpoint import process
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
LIMIT = 100.0
"""Seconds that a script may take."""

# It runs before the script. A name that is asked for is noted and does not resolve, so no call leaves the machine.
PRELUDE = """
import socket as _socket
_resolve, names = _socket.getaddrinfo, []
def _closed(host, *rest, **named):
    if host in ("127.0.0.1", "localhost", "::1"):
        return _resolve(host, *rest, **named)
    names.append(str(host))
    raise _socket.gaierror(f"no name is resolved here: {host}")
_socket.getaddrinfo = _closed
result = None
"""
EPILOGUE = """
import json as _json
with open(__file__ + ".json", "w") as _file:
    _json.dump({"result": result, "names": names}, _file, default=str)
"""


@dataclass(frozen=True)
class Ended:
    """A script that ran: what it left in ``result``, the names that it wanted to resolve, and what it printed."""

    result: Any
    names: list[str]
    output: str


@dataclass(frozen=True)
class AwsClient:
    """An interpreter with clients of AWS, led to the front by the variables of ``jupyter smx aws env``."""

    folder: Path
    packages: Path
    variables: Mapping[str, str]

    def run(self, code: str, *, limit: float = LIMIT) -> Ended:
        """Run a script to its end.

        :raises AssertionError: it failed; the text has its output.
        """
        script = self.folder / "client.py"
        answer = self.folder / "client.py.json"
        answer.unlink(missing_ok=True)
        script.write_text(PRELUDE + code + EPILOGUE, encoding="utf-8")
        done = self.command(sys.executable, os.fspath(script), limit=limit)
        assert done.returncode == 0, done.stdout + done.stderr
        about = json.loads(answer.read_text(encoding="utf-8"))
        return Ended(about["result"], about["names"], done.stdout + done.stderr)

    def command(self, *words: str, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """Run a program in the environment of the clients."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        startup = filter(None, [self.variables.get("PYTHONPATH")])
        path = os.pathsep.join([*startup, str(self.packages), str(ROOT)])
        environment = {**inherited, **self.variables, "PYTHONPATH": path}
        return subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )


def quiet(_: str) -> None:
    """Report nothing."""


def restart_front() -> None:
    """Kill the front, and start it again as a user does."""
    running, before = process.find_front(), process.start_front(quiet)
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    eventually_blocking(lambda: process.find_front() is None)
    assert process.start_front(quiet) == before, "port and key are the same"
