"""A log of 1 GB: its end and a page of it over the controller's socket, and words in all of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.place import client, percentile, place
from jupyter_smx import controller_launch
from jupyter_smx.controller.telemetry import log_search

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

GIGABYTE = 2**30
LINE = "2026-11-21 12:00:00 INFO \033[32mstep\033[0m {:>12} loss=0.1234 accuracy=0.98 and some more words of a log\n"
OPENING = 131_072
"""Bytes that JupyterLab reads first."""
PAGE = 262_144


def run(options: argparse.Namespace) -> None:
    """Print how long the end takes, a page anywhere, and looking through the whole."""
    del options
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    with place():
        job = smx.train("print('done')").wait()
        path = controller_launch.data_dir() / "jobs" / job.id / "logs" / "algo-1.log"
        write_log(path)
        of, total = client(), path.stat().st_size
        ends = [_timed(lambda: of.log(job.id, "", total - OPENING, limit=OPENING)) for _ in range(50)]
        pages = [_timed(lambda at=at: of.log(job.id, "", at, limit=PAGE)) for at in range(0, total, total // 50)]
        print(f"a log of {total / 1e9:.2f} GB, over the socket:")
        for name, took in (("its end", ends), ("a page of it", pages)):
            print(f"  {name:14} p50 {percentile(took, 0.5):6.2f} ms  p99 {percentile(took, 0.99):6.2f} ms")
        for words in ("the last needle", "error: no", "accuracy=0.99"):
            _search(path, words, total)


def write_log(path: Path) -> None:
    """Write a log of a gigabyte, with colours."""
    block = "".join(LINE.format(number) for number in range(2**23 // len(LINE.format(0)))).encode()
    with path.open("wb") as file:
        while file.tell() < GIGABYTE:
            file.write(block)


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def _search(path: Path, words: str, total: int) -> None:
    pattern = log_search.compile_pattern(words, match_case=False)
    parts, before = [], total
    while before:
        began = time.process_time()
        _, reached, _ = log_search.search(path, pattern, 0, before)
        parts.append((time.process_time() - began) * 1000)
        before = reached
    rate = total / 1e6 / (sum(parts) / 1000)
    print(
        f"  {words!r} in all of it: {sum(parts) / 1000:.1f} s of one CPU, {rate:.0f} MB/s, {max(parts):.0f} ms at once"
    )
