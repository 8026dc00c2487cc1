"""Memory: what each job leaves in the controller and in the agent, and what an idle warm host and controller take."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.place import client, place, wait_for_preload

if TYPE_CHECKING:
    import argparse

MODULES = ("numpy", "sklearn.ensemble")
WATCHED = 20.0
"""Seconds in which an idle controller's use of the processor is counted."""


def private(pid: int) -> float:
    """Give the memory in MB that would be free if this process were not."""
    return psutil.Process(pid).memory_full_info().uss / 1e6


def anonymous(pid: int) -> float:
    """Give the memory in MB that no file holds, a page that processes share counted by their number."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("This kernel does not tell shared from private memory.")


def slope(rows: list[tuple[int, float]]) -> float:
    """Fit a line through (jobs, bytes); bytes per job."""
    return statistics.linear_regression([x for x, _ in rows], [y for _, y in rows]).slope


def run(options: argparse.Namespace) -> None:
    """Print the slopes over ``--soak`` jobs, then what idles."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    with place():
        _soak(smx, options.soak)
    with place():
        _idle(smx)
    _loading()


def _agent() -> psutil.Process:
    """Find the agent of the only host."""
    mine = os.environ["JUPYTER_SMX_DATA_DIR"]
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "serve" in words and any(mine in word for word in words):
            return process
    raise SystemExit("There is no agent.")


def _soak(smx: Any, count: int) -> None:
    smx.train("pass", keep_alive="1h").wait()
    pid = client().controller_info().pid
    agent = _agent().pid
    controller_rows, agent_rows, took = [], [], []
    step = max(1, count // 40)
    for done in range(1, count + 1):
        began = time.perf_counter()
        smx.train("pass", keep_alive="1h").wait()
        took.append(time.perf_counter() - began)
        if done % step == 0 and done >= count // 4:
            controller_rows.append((done, private(pid) * 1e6))
            agent_rows.append((done, private(agent) * 1e6))
    early, late = took[count // 4 : count // 2], took[-count // 4 :]
    print(f"{count} jobs: the controller grows by {slope(controller_rows):.0f} bytes a job, to {private(pid):.0f} MB")
    print(f"  the agent by {slope(agent_rows):.0f} bytes a job, to {private(agent):.0f} MB")
    ratio = statistics.median(late) / statistics.median(early)
    print(f"  a job of the last quarter took {ratio:.2f} times as long as one of the second")
    page = []
    for _ in range(30):
        began = time.perf_counter()
        client().jobs(100)
        page.append((time.perf_counter() - began) * 1000)
    print(f"  a page of 100 of them: p50 {statistics.median(page):.1f} ms, slowest {max(page):.1f} ms")


def _idle(smx: Any) -> None:
    smx.train("\n".join(f"import {module}" for module in MODULES), keep_alive="1h").wait()
    wait_for_preload(client(), MODULES)
    pid = client().controller_info().pid
    controller = psutil.Process(pid)
    agent = _agent()
    time.sleep(2.0)
    before = controller.cpu_times()
    time.sleep(WATCHED)
    after = controller.cpu_times()
    share = (after.user + after.system - before.user - before.system) / WATCHED
    print(f"idle controller: {controller.memory_info().rss / 1e6:.0f} MB resident, {100 * share:.2f} % of a core")
    plain = subprocess.Popen(
        [sys.executable, "-c", f"import {', '.join(MODULES)}, time\nprint(flush=True)\ntime.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    assert plain.stdout is not None
    plain.stdout.readline()
    preloads = anonymous(plain.pid)
    plain.kill()
    plain.wait()
    rows = [anonymous(one.pid) for one in (agent, *agent.children(recursive=True))]
    sizes = ", ".join(f"{size:.1f}" for size in rows)
    print(f"idle warm host: agent, zygote and parked child {sizes} MB, a page that they share counted by their number")
    print(f"  a plain process with the same imports {preloads:.1f} MB; beyond it {sum(rows) - preloads:.1f} MB")


def _loading() -> None:
    code = (
        "import time\nfrom IPython.core.interactiveshell import InteractiveShell as S\ns = S.instance()\n"
        "t = time.perf_counter()\ns.run_line_magic('load_ext', 'jupyter_smx')\nprint(time.perf_counter() - t)"
    )
    took = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    ]
    print(f"%load_ext jupyter_smx: {1000 * statistics.median(took):.0f} ms (median of {len(took)})")
