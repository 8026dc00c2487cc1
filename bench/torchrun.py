"""Ranks of torchrun on two warm hosts: from the cell to the first line of rank 0, and of the last rank."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import statistics
import time
from typing import TYPE_CHECKING, Any

from bench.place import client, notebook, percentile, wait_for_preload

if TYPE_CHECKING:
    import argparse

HOSTS, PROCESSES = 2, 2
CELL = f"""\
%%train --name ranks --instance-count {HOSTS} --distribution torchrun,processes={PROCESSES} --keep-alive 10m --as job
import time
began = time.time()
import os
import torch
print(f"rank {{os.environ['RANK']}} {{began}}")
"""


def run(options: argparse.Namespace) -> None:
    """Print a row: milliseconds from the cell to rank 0's first line and to the last rank's, torch being preloaded."""
    if importlib.util.find_spec("torch") is None:
        print("Not measured: torch must be installed here (pip install torch).")
        return
    with notebook() as shell:
        _ranks(shell)  # cold
        wait_for_preload(client(), ("torch",))
        rows = [_ranks(shell) for _ in range(options.rounds * 10)]
    print(f"{HOSTS} hosts × {PROCESSES} ranks, {len(rows)} warm jobs    {'p50':>7} {'p90':>7}")
    spans = {"cell to rank 0's first line": [row[0] for row in rows], "to the last rank's": [max(row) for row in rows]}
    for title, values in spans.items():
        print(f"    {title:32} {statistics.median(values):7.0f} {percentile(values, 0.9):7.0f} ms")


def _ranks(shell: Any) -> list[float]:
    """Run one job; gives for each rank the milliseconds from the cell to its first line."""
    began = time.time()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(CELL)
        job = shell.user_ns["job"].wait(300)
    if job.record.status().value != "Completed":
        raise SystemExit(f"{job.name}: {job.record.failure_reason}")
    told = {int(rank): float(seconds) for rank, seconds in re.findall(r"rank (\d) (\d+\.\d+)", job.logs())}
    return [(told[rank] - began) * 1000 for rank in range(HOSTS * PROCESSES)]
