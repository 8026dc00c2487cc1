"""Cold and warm starts from the magic to the user's first line, hop by hop, as a table with ratios.

The p99 is the median of the p99 of the rounds, because one burst of a neighbour ruins a single one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.place import client, notebook, percentile, release_all, wait_for_preload

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

HOPS = (
    ("cell to magic", "cell", "magic"),
    ("magic to controller", "magic", "accepted"),
    ("decide and commit", "accepted", "committed"),
    ("dispatch", "committed", "sent"),
    ("controller to agent", "sent", "received"),
    ("agent to child", "received", "awake"),
    ("child to first line", "awake", "first_line"),
    ("first line to exit", "first_line", "exited"),
    ("exit to record", "exited", "ended"),
    ("record to verdict", "ended", "final"),
    ("verdict to kernel", "final", "known"),
)
PRELOADS = {
    "bare": (),
    "sklearn": ("numpy", "sklearn.ensemble"),
    "torch": ("torch",),
}
LOADS = (
    ("pauses of 2 s", 2.0, False),
    ("pauses of 150 ms", 0.15, False),
    ("back to back", 0.0, False),
    ("one core busy", 0.05, True),
)
"""What goes on beside: seconds between two jobs, and whether a neighbour spins."""
PATIENCE = 40.0
"""Seconds that the pauses of one round may take; of long ones there are fewer."""


def installed(options: argparse.Namespace) -> Iterator[str]:
    """Name the sets to measure, and say of those that are not installed here that they are not measured."""
    for name in options.preload or PRELOADS:
        if all(importlib.util.find_spec(module.split(".")[0]) for module in PRELOADS[name]):
            yield name
        else:
            print(f"{name}: not installed here, not measured")


def cell(modules: tuple[str, ...]) -> str:
    """Write the job: its first line, its imports, and the moment when they are done."""
    return "\n".join(["import time", *(f"import {name}" for name in modules), "print(time.time())"])


def run_one(shell: Any, modules: tuple[str, ...], where: str = "") -> dict[str, float]:
    """Run one job through the magic and give its moments, seconds since the epoch; ``ready`` is after its imports.

    ``where`` are options that say on which hosts.
    """
    began = time.time()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(f"%%train --name bench --keep-alive 10m --as job {where}\n{cell(modules)}")
        record = shell.user_ns["job"].wait(120).record
        known = time.time()
        if record.status().value != "Completed":
            raise SystemExit(f"{record.name}: {record.failure_reason}")
        ready = float(shell.user_ns["job"].logs())
    seen = {"cell": began, "known": known, "ready": ready}
    return {**record.timings, **seen, "warm": float(record.why.start == "warm")}


def measure(shell: Any, modules: tuple[str, ...], count: int, pause: float, where: str = "") -> list[dict[str, float]]:
    """Run ``count`` warm jobs with a pause in seconds between them."""
    rows = []
    for _ in range(count):
        time.sleep(pause)
        row = run_one(shell, modules, where)
        if not row["warm"]:
            raise SystemExit("A job was cold.")
        rows.append(row)
    return rows


def as_many(jobs: int, pause: float) -> int:
    """Say how many of so many jobs there is time for with a pause in seconds before each of them."""
    return min(jobs, int(PATIENCE / pause)) if pause else jobs


def spans(rows: list[dict[str, float]], start: str, end: str) -> list[float]:
    """Milliseconds between two moments of every job."""
    return [(row[end] - row[start]) * 1000 for row in rows]


def print_hops(rows: list[dict[str, float]]) -> None:
    """Print every hop, so that the next one to mend is seen."""
    for name, start, end in HOPS:
        values = spans(rows, start, end)
        shares = (f"{percentile(values, share):8.2f}" for share in (0.5, 0.9, 0.99))
        print(f"    {name:22}", *shares)


def floor(modules: tuple[str, ...]) -> float:
    """Measure a bare fork with the same imports: median milliseconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("floor.py")), *modules]
    told = subprocess.run(command, env=environment, capture_output=True, check=True)
    return statistics.median(json.loads(told.stdout))


def busy_core() -> subprocess.Popen[bytes]:
    """Start one spinner, as a neighbour that never sleeps."""
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def _one_set(shell: Any, name: str, options: argparse.Namespace) -> None:
    """Measure one preload set: cold start, warm starts with and without pauses and with a busy core, the floor."""
    controller = client()
    modules = PRELOADS[name]
    cold = []
    for _ in range(options.rounds):
        release_all(controller)
        cold.append(run_one(shell, modules))
    first, imported = (statistics.median(spans(cold, "magic", moment)) for moment in ("first_line", "ready"))
    wait_for_preload(controller, modules)
    measure(shell, modules, 10, 0.0)
    low = floor(modules)
    print(f"{name}: cold start {first:.0f} ms to the first line, {imported:.0f} ms to the end of its imports;", end=" ")
    print(f"a bare fork takes {low:.2f} ms")
    for label, pause, spin in LOADS:
        spinner = busy_core() if spin else None
        try:
            rounds = [measure(shell, modules, as_many(options.jobs, pause), pause) for _ in range(options.rounds)]
        finally:
            if spinner is not None:
                spinner.kill()
                spinner.wait()
        each = [spans(rows, "magic", "first_line") for rows in rounds]
        middle = statistics.median(percentile(values, 0.5) for values in each)
        tail = statistics.median(percentile(values, 0.99) for values in each)
        warm = statistics.median(spans([row for rows in rounds for row in rows], "magic", "ready"))
        print(f"  {label:18} p50 {middle:6.2f} ms  p99 {tail:6.2f} ms  = {middle / low:5.1f} bare forks;", end=" ")
        print(f"with imports {warm:6.2f} ms, cold/warm {imported / warm:5.0f}")
        print_hops([row for rows in rounds for row in rows])


def run(options: argparse.Namespace) -> None:
    """Measure the chosen sets."""
    with notebook() as shell:
        for name in installed(options):
            _one_set(shell, name, options)
