"""Measure the floor under a warm start, a bare ``fork``. Apart: it runs as a program with the measured imports only."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

COUNT = 60
PAUSE = 0.02


def main() -> None:
    """Import the modules named on the command line, fork, and print milliseconds as a JSON list."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    taken = []
    for _ in range(COUNT):
        time.sleep(PAUSE)
        reading, writing = os.pipe()
        before = time.time()
        pid = os.fork()
        if pid == 0:
            os.write(writing, repr(time.time()).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        taken.append((float(os.read(reading, 64)) - before) * 1000)
        os.close(reading)
        os.close(writing)
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
