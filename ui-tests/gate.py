"""A gate that a job comes to and waits at, so that a test says how long the job runs."""

from __future__ import annotations

import socket
from contextlib import suppress

ARRIVE_LIMIT = 60.0


class Gate:
    """One job at a time comes through; closing the gate lets all of them go on."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ARRIVE_LIMIT)
        self._waiting: list[socket.socket] = []

    @property
    def code(self) -> str:
        """What the job has to run in order to come here."""
        port = self._listener.getsockname()[1]
        return (
            "import socket\n"
            f'with socket.create_connection(("127.0.0.1", {port})) as gate:\n'
            '    print("at the gate", flush=True)\n'
            "    gate.recv(1)\n"
            'print("through")\n'
        )

    def wait_for_job(self) -> None:
        """Wait until a job stands here.

        :raises TimeoutError: none came.
        """
        waiting, _ = self._listener.accept()
        self._waiting.append(waiting)

    def open(self) -> None:
        """Let the jobs that stand here go on."""
        for waiting in self._waiting:
            with suppress(OSError):
                waiting.sendall(b".")
            waiting.close()
        self._waiting.clear()

    def close(self) -> None:
        """Let everybody go on, also those that come later."""
        self.open()
        self._listener.close()
