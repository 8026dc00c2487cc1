"""Connects ``ssh`` with a machine, as its ``ProxyCommand``: a TCP socket of the world's network is handed over.

Run as ``python connect.py SOCKET ALIAS PORT`` with ``ProxyUseFdpass yes``; then ``ssh`` speaks over that socket.
"""

from __future__ import annotations

import socket
import sys


def main(path: str, alias: str, port: str) -> int:
    """Ask the supervisor at ``path`` for a connection and pass its descriptor to standard output."""
    with socket.socket(socket.AF_UNIX) as supervisor:
        supervisor.connect(path)
        supervisor.sendall(f"{alias} {port}\n".encode())
        answer, descriptors, _, _ = socket.recv_fds(supervisor, 4096, 1)
    if not descriptors:
        sys.stderr.write(f"ssh: connect to host {alias} port {port}: {answer.decode()}\n")
        return 255
    with socket.socket(fileno=1) as ssh:
        socket.send_fds(ssh, [b"\0"], descriptors)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
