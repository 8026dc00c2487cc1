"""Large variables: a 1 GB array to a job and back, and what passes through the controller on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from bench.place import client, place, wait_for_preload

if TYPE_CHECKING:
    import argparse

SIZE = 1 << 30
"""Bytes."""


def run(options: argparse.Namespace) -> None:
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
