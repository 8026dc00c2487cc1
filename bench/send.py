"""What is sent: a 1 GB array to a job and back, and folders of code that a terminal sends again unchanged."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.place import client, place, wait_for_preload

if TYPE_CHECKING:
    import argparse

SIZE = 1 << 30
"""Bytes."""
FOLDERS = {"300 files, 250 MB": (300, 250_000_000), "20,000 files, 20 MB": (20_000, 20_000_000)}
"""Number of files and their bytes, in folders of at most 100 files."""
SETTLE = 3.0
"""Seconds until the times of files tell whether they changed, and until an idle host has made its next copy."""
PAUSES = (SETTLE, 0.0)
"""Seconds before a run."""


def run(options: argparse.Namespace) -> None:
    """Print the figures of variables and of folders."""
    _run_variables(options)
    _run_folders(options)


def _run_variables(options: argparse.Namespace) -> None:
    """Print the way there, to the moment in which the job has the array, and the way back."""
    import numpy as np  # noqa: PLC0415 - heavy, and only wanted here

    import jupyter_smx as smx  # noqa: PLC0415 - the same

    table = np.random.default_rng(0).integers(0, 255, SIZE, dtype=np.uint8)
    with place():
        smx.train("import numpy", keep_alive="10m").wait()
        wait_for_preload(client(), ("numpy",))
        controller = psutil.Process(client().controller_info().pid)
        before = controller.memory_info().rss
        for turn in range(options.rounds):
            table[0] = turn
            began = time.time()
            job = smx.train("import time; print(time.time(), table.nbytes)", send={"table": table}, keep_alive="10m")
            there = float(job.wait().logs().split()[0]) - began
            began = time.time()
            back = smx.train(f"import numpy; a = numpy.ones({SIZE}, 'u1')", receive=["a"], keep_alive="10m").result()
            returned = time.time() - began
            grown = (controller.memory_info().rss - before) / 1e6
            print(f"1 GB there in {there:.2f} s = {SIZE / there / 1e6:.0f} MB/s;", end=" ")
            print(f"made there and back in {returned:.2f} s = {back['a'].nbytes / returned / 1e6:.0f} MB/s;", end=" ")
            print(f"the controller grew by {grown:.0f} MB")


def _run_folders(options: argparse.Namespace) -> None:
    """Print the time from a submit to the first line: of the first job, and of jobs of an unchanged folder.

    Each job is submitted by a process of its own. The ratio is to the time of ``python -c pass``.
    """
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    bare = statistics.median(_bare_start() for _ in range(5))
    for name, (files, size) in FOLDERS.items():
        with tempfile.TemporaryDirectory(prefix="smx-bench-code-") as folder, place():
            _fill(Path(folder), files, size)
            smx.train("pass", keep_alive="10m").wait()
            time.sleep(SETTLE)
            print(f"folder of {name}: the first job {_format(_submit_from_terminal(folder), bare)}")
            for pause in PAUSES:
                time.sleep(SETTLE)
                found = [_submit_from_terminal(folder, pause) for _ in range(options.rounds)]
                label = f"after pauses of {pause:g} s" if pause else "back to back"
                print(f"  unchanged, {label}: {_format(statistics.median(found), bare)}, slowest {max(found):.3f} s")


def _format(seconds: float, bare: float) -> str:
    return f"{seconds:.3f} s to the first line = {seconds / bare:.1f} times `python -c pass`"


def _bare_start() -> float:
    began = time.time()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.time() - began


def _fill(folder: Path, files: int, size: int) -> None:
    """Write a script and files of random bytes, at most 100 in a folder."""
    (folder / "train.py").write_text("pass\n", encoding="utf-8")
    noise = random.Random(0)  # noqa: S311 - no secret
    for number in range(files - 1):
        path = folder / f"part{number // 100}" / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(noise.randbytes(size // files))


def _submit_from_terminal(folder: str, pause: float = 0.0) -> float:
    """Run a job by ``jupyter smx run`` after a pause; give the seconds from its submit to its first line."""
    time.sleep(pause)
    command = [sys.executable, "-m", "jupyter_smx.cli", "run", "--source-dir", folder, "--entry-point", "train.py"]
    done = subprocess.run([*command, "--keep-alive", "10m"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    job = client().job(client().jobs(limit=1)[0].id)
    if job.why.start != "warm":
        raise SystemExit("A job was cold.")
    return job.timings["first_line"] - job.spec.submitted_at
