"""A process that has imported the command, and forks for each one that a test runs: the imports are most of its work.

A forked command is a process as any other: it has its own streams, folder, environment and exit code. Only its start,
from ``python -m`` to :func:`jupyter_smx.cli.main.main`, is left out; ``Terminal.start`` has that, too.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_REQUEST_BYTES = 1 << 20


class CommandServer:
    """The process, as a test has it. It starts with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(self, words: tuple[str, ...], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run one command with the environment of this process, and wait for its end.

        After an error there is no process: its late answer would be taken for the next command's exit code.

        :raises TimeoutError: the command did not end within ``timeout`` seconds; it is killed.
        :raises AssertionError: the process ended.
        """
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            Path(os.devnull).open("rb") as nothing,
        ):
            request = {"words": words, "folder": str(folder), "environment": dict(os.environ)}
            streams = [file.fileno() for file in (nothing, output, errors)]
            try:
                returncode = self._ask(json.dumps(request), streams, timeout)
            except BaseException:  # pytest-timeout's, too
                self._kill()
                raise
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(words, returncode, *texts)

    def _ask(self, request: str, streams: list[int], timeout: float) -> int:
        requests = self._socket or self._start()
        requests.settimeout(timeout)
        try:
            socket.send_fds(requests, [request.encode()], streams)
            answer = requests.recv(100)
        except ConnectionError:
            answer = b""
        if not answer:
            message = "The process that forks commands ended before the command did. Its own standard error says why."
            raise AssertionError(message)
        return int(answer)

    def _start(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a group, which _kill ends; controllers have sessions of their own
            )
        return self._socket

    def close(self) -> None:
        """End the process."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
        self._process = self._socket = None

    def _kill(self) -> None:
        """End the process with the command that it forked."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()


def serve(requests: socket.socket) -> None:
    """Fork for each request, and answer with the exit code; return at the end of requests, and in each child."""
    gc.freeze()
    while True:
        text, streams, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not text:
            return
        child = os.fork()
        if not child:
            _become_command(requests, json.loads(text), streams)
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become_command(requests: socket.socket, request: dict[str, object], streams: list[int]) -> None:
    requests.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(dict(request["environment"]))  # type: ignore[call-overload]
    sys.argv = ["jupyter-smx", *request["words"]]  # type: ignore[misc]


if __name__ == "__main__":
    from jupyter_smx.cli.main import main

    serve(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[0] != __file__:
        sys.exit(main())
