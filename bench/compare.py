"""Compare two checkouts: warm starts hop by hop, cold starts and import times, interleaved in one run.

    python -m bench compare --other CHECKOUT [--jobs 200]

The other checkout needs an environment of its own in ``.venv``. Blocks of jobs alternate between the two, so that
a busy neighbour slows both. Every figure is a median; quote the ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.place import percentile
from bench.warm import HOPS, spans

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).parent.parent
BLOCK = 10
"""Jobs that one checkout runs before the other has its turn."""
PAUSE = 0.15
"""Seconds between two jobs, as between two cells: what a controller does after a verdict is over by then."""
COLD = 7
"""Cold starts of each checkout."""
IMPORTS = 15
"""Interpreters that are started to measure one import time."""

DRIVER = f"""
import json, sys, time
from bench.place import client, notebook, release_all, wait_for_preload
from bench.warm import run_one
with notebook() as shell:
    for line in sys.stdin:
        kind, count = line.split()
        rows = []
        for _ in range(int(count)):
            if kind == "cold":
                release_all(client())
            else:
                time.sleep({PAUSE})
            rows.append(run_one(shell, ()))
        print(json.dumps(rows), flush=True)
"""
LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = time.perf_counter()
shell.run_line_magic("load_ext", "jupyter_smx")
print((time.perf_counter() - before) * 1000)
"""
ARCHIVE = """
import importlib, sys, tempfile, time
from pathlib import Path
from jupyter_smx.engines.machine import agent_zipapp
archive = agent_zipapp.write_archive(Path(tempfile.mkdtemp()))
import ctypes, json, os, selectors, socket, struct, subprocess, tarfile, threading, traceback
for name in [name for name in sys.modules if name.startswith("jupyter_smx")]:
    del sys.modules[name]
sys.path.insert(0, str(archive))
before = time.perf_counter()
for name in ("serve", "forkserver.zygote", "forkserver.child", "host.host", "job.job"):
    module = importlib.import_module("jupyter_smx.agent." + name)
print((time.perf_counter() - before) * 1000)
assert str(archive) in module.__file__, module.__file__
"""
"""Import what an agent and its zygote need from the archive; the library's own modules are there already."""

OLD_NAMES = {
    "jupyter_smx.engines.machine import agent_zipapp": "jupyter_smx.engines import pack as agent_zipapp",
    "agent_zipapp.write_archive": "agent_zipapp.place",
    "forkserver.": "birth.",
    "host.host": "hosts.host",
    "job.job": "jobs.job",
}
"""Words of the code above in checkouts from before the packages."""


class Side:
    """One checkout with a controller, a notebook's shell and a warm pool of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = str(folder / ".venv" / "bin" / "python")
        self.environment = {**os.environ, "PYTHONPATH": str(folder)}
        self.driver = subprocess.Popen(
            [self.python, "-c", DRIVER],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, kind: str, count: int) -> list[dict[str, float]]:
        """Run jobs, ``cold`` or ``warm`` ones, and return their moments in seconds since the epoch."""
        if self.driver.stdin is None or self.driver.stdout is None:
            raise RuntimeError
        print(kind, count, file=self.driver.stdin, flush=True)
        rows: list[dict[str, float]] = json.loads(self.driver.stdout.readline())
        return rows

    def measure(self, code: str) -> float:
        """Run code in a new interpreter and return the milliseconds that it prints."""
        if not (self.folder / "jupyter_smx" / "agent" / "forkserver").exists():
            for new, old in OLD_NAMES.items():
                code = code.replace(new, old)
        done = subprocess.run(
            [self.python, "-c", code], cwd="/", env=self.environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout.split()[-1])

    def close(self) -> None:
        """End the shell, the controller and the pool."""
        if self.driver.stdin is not None:
            self.driver.stdin.close()
        self.driver.wait()


def _print_row(name: str, before: list[float], after: list[float]) -> None:
    old, new = statistics.median(before), statistics.median(after)
    print(f"  {name:24} {old:9.2f} {new:9.2f} ms   x {new / old if old else 1:5.2f}   {new - old:+7.2f} ms")


def _interleave(sides: tuple[Side, Side], kind: str, count: int, block: int) -> tuple[list[Any], list[Any]]:
    """Let both sides run ``count`` jobs, a block each in turns; which one begins alternates."""
    rows: tuple[list[Any], list[Any]] = ([], [])
    for turn in range(-(-count // block)):
        for index in (0, 1) if turn % 2 == 0 else (1, 0):
            rows[index].extend(sides[index].run(kind, block))
    return rows


def run(options: argparse.Namespace) -> None:
    """Print each figure of the other checkout, of this one, their ratio and their difference."""
    if not options.other:
        print("compare: needs --other CHECKOUT, not measured")
        return
    sides = (Side(Path(options.other).resolve()), Side(ROOT))
    try:
        print(f"  {'':24} {'other':>9} {'this':>9}")
        cold = _interleave(sides, "cold", COLD, 1)
        _print_row("cold, to first line", *(spans(rows, "magic", "first_line") for rows in cold))
        for side in sides:
            side.run("warm", 20)
        warm = _interleave(sides, "warm", max(options.jobs, 200), BLOCK)
        for name, start, end in HOPS:
            _print_row(name, *(spans(rows, start, end) for rows in warm))
        for name, start, end in (("magic to first line", "magic", "first_line"), ("whole", "cell", "known")):
            each = [spans(rows, start, end) for rows in warm]
            _print_row(name, *each)
            tails = (f"{percentile(values, 0.99):.2f}" for values in each)
            print(f"  {'':24} p99 {' and '.join(tails)} ms")
    finally:
        for side in sides:
            side.close()
    for name, code in (("%load_ext", LOAD), ("imports of the archive", ARCHIVE)):
        values: tuple[list[float], list[float]] = ([], [])
        for _ in range(IMPORTS):
            for index, side in enumerate(sides):
                values[index].append(side.measure(code))
        _print_row(name, *values)
