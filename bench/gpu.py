"""GPUs: what we say that a PyTorch job uses, beside what ``nvidia-smi`` says of its process in the same seconds."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

from bench.place import place

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SECONDS = 20
WARM_UP = 3
"""Seconds until the context is made and the first kernels run."""
MIB = 1 << 20

WORK = """
import os, time, torch
print(os.getpid(), flush=True)
size = 4096
a = torch.randn(size, size, device="cuda")
until = time.time() + seconds
while time.time() < until:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
    time.sleep(pause)
"""
"""Works and rests, so that neither figure is simply 0 or 100."""


def run(options: argparse.Namespace) -> None:
    """Print a row for each load; a sentence where there is nothing to measure."""
    del options
    reason = _why_not()
    if reason:
        print(reason)
        return
    print(f"{'pause':>8} {'GPU % ours':>12} {'nvidia-smi':>12} {'memory ours':>14} {'nvidia-smi':>14}")
    with place():
        for pause in (0.0, 0.05, 0.2):
            _compare(pause)


def _why_not() -> str:
    if shutil.which("nvidia-smi") is None:
        return "No GPU was measured: there is no nvidia-smi here."
    seen = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607 - by its name
    if seen.returncode or "GPU" not in seen.stdout:
        return f"No GPU was measured: nvidia-smi lists none ({(seen.stdout + seen.stderr).strip()[:200]})."
    return "" if importlib.util.find_spec("torch") else "No GPU was measured: torch is not installed here."


def _compare(pause: float) -> None:
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    job = smx.train(WORK, send={"seconds": SECONDS + WARM_UP, "pause": pause}, keep_alive="10m")
    while not job.logs().strip() and not job.done():
        time.sleep(0.1)
    pid = int(job.logs().split()[0])
    time.sleep(WARM_UP)
    began, percents, memories = time.time(), [], []
    while time.time() < began + SECONDS - 1:
        percents += _percents(pid)
        memories += _memories(pid)
    ours = [sample for sample in job.usage.history() if began <= sample.at]
    job.wait()
    row = (
        _mean([sample.gpu_percent for sample in ours]),
        _mean(percents),
        _mean([sample.gpu_memory_bytes for sample in ours], MIB),
        _mean(memories),
    )
    print(f"{pause:6.2f} s {row[0]:>12} {row[1]:>12} {row[2]:>10} MiB {row[3]:>10} MiB")
    for note in job.usage.notes:
        print(f"         {note}")


def _mean(values: list[float | None] | list[int | None] | list[float], unit: float = 1.0) -> str:
    known = [value / unit for value in values if value is not None]
    return f"{statistics.mean(known):.1f}" if known else "unknown"


def _percents(pid: int) -> list[float]:
    """Ask for one second of utilisation by process."""
    for words in _rows("pmon", "-c", "1", "-s", "u", separator=" "):
        if words[1:2] == [str(pid)] and words[3] != "-":
            return [float(words[3])]
    return []


def _memories(pid: int) -> list[float]:
    rows = _rows("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits", separator=",")
    used = [float(row[1]) for row in rows if row[0].strip() == str(pid) and row[1].strip().isdecimal()]
    return [sum(used)] if used else []


def _rows(*words: str, separator: str) -> Iterator[list[str]]:
    said = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=False)  # noqa: S607 - by its name
    lines = (line for line in said.stdout.splitlines() if line and not line.startswith("#"))
    yield from ([word for word in row if word] for row in csv.reader(lines, delimiter=separator, skipinitialspace=True))
