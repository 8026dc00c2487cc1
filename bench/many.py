"""Many jobs: one after another through one warm pool, and a thousand handed in at once."""

from __future__ import annotations

import os
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

from bench.place import client, percentile, place, wait_for_preload
from bench.warm import PRELOADS, installed

if TYPE_CHECKING:
    import argparse

KEEP = "10m"


def run(options: argparse.Namespace) -> None:
    """Print jobs per second for each preload set, then what a burst does."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    for name in installed(options):
        with place():
            _series(smx, name, options)
    with place():
        _burst(smx, options.burst)


def _series(smx: Any, name: str, options: argparse.Namespace) -> None:
    modules = PRELOADS[name]
    smx.train("\n".join(f"import {module}" for module in modules) or "pass", keep_alive=KEEP).wait()
    wait_for_preload(client(), modules)
    rates = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        for _ in range(options.jobs):
            job = smx.train("pass", keep_alive=KEEP).wait()
        rates.append(options.jobs / (time.perf_counter() - began))
        if job.latest_record.why.start != "warm" or job.latest_record.status().value != "Completed":
            raise SystemExit(f"{job.name}: {job.latest_record.why.sentence} {job.latest_record.failure_reason}")
    said = ", ".join(f"{rate:.0f}" for rate in rates)
    print(f"{name}: {options.jobs} jobs one after another, {statistics.median(rates):.0f} jobs/s (rounds: {said})")


def _burst(smx: Any, count: int) -> None:
    """Hand in ``count`` jobs with one pool warm, list jobs meanwhile, and look at the order in which they ended."""
    smx.train("pass", keep_alive=KEEP).wait()
    from jupyter_smx.kernel.api.session import current_session  # noqa: PLC0415 - as above

    session = current_session()
    here = session.submission_context()
    from jupyter_smx.kernel.request.request import JobRequest  # noqa: PLC0415 - as above

    spec = JobRequest(kind="train", fields={"keep_alive": KEEP}).build_spec("pass", 0, here, time.time())
    over = threading.Event()
    looks: list[float] = []

    def look() -> None:
        while not over.is_set():
            began = time.perf_counter()
            client().jobs(20)
            looks.append((time.perf_counter() - began) * 1000)
            over.wait(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    began = time.perf_counter()
    ids = []
    for _ in range(count):
        ids.append(os.urandom(16).hex())
        client().submit(ids[-1], spec)
    accepted = time.perf_counter() - began
    ends = [client().wait(job_id, 600.0) for job_id in ids]
    took = time.perf_counter() - began
    over.set()
    looking.join()
    bad = [job.name for job in ends if job.status().value != "Completed"]
    order = sorted(range(count), key=lambda index: ends[index].ended_at or 0.0)
    behind = max(abs(place - index) for place, index in enumerate(order))
    print(f"{count} at once: accepted in {accepted:.2f} s ({1000 * accepted / count:.1f} ms each)")
    print(f"  all over in {took:.1f} s ({count / took:.0f} jobs/s), {len(bad)} of them not completed")
    print(f"  none ended more than {behind} places from its turn")
    print(f"  a page of jobs meanwhile: p50 {percentile(looks, 0.5):.1f} ms, p99 {percentile(looks, 0.99):.1f} ms")
