"""From a submission to its result, as multiples of a bare ``python -c pass`` of the same run, with other tools beside.

Blocks alternate, so that a busy neighbour slows all of them. Quote the ratios. None of the peers isolates a job, keeps
a record or survives a restart of its scheduler; one that is not installed is not measured.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from bench.place import client, percentile, place, print_machine, wait_for_preload

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    Call = Callable[[], object]

BLOCK = 10
PAUSE = 0.15
"""Seconds between two calls."""
KEEP = "10m"
MODULES = ("numpy", "sklearn.ensemble")
RECEIVING = "\n".join([*(f"import {module}" for module in MODULES), "x = 1"])
MAP_ITEMS = 300
RATE_BLOCKS = 4
"""Blocks of calls without pauses, each after one of bare interpreters."""


def run(options: argparse.Namespace) -> None:
    """Measure round trips, rates and CPU time on a pool that has imported nothing, then one with scikit-learn."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    print_machine()
    count = max(options.jobs, 2 * BLOCK)
    with place():
        print("a pool without imports")
        _print_round_trips({"python -c pass": _bare, 'train("pass"), result': lambda: _train(smx, "pass")}, count)
        _print_end(smx, count)
        _print_rates(smx, count)
        _print_cpu(smx, options.jobs)
    if importlib.util.find_spec("sklearn"):
        with place():
            print("a pool that has imported scikit-learn; a variable is received")
            _train(smx, RECEIVING, receive=["x"])
            wait_for_preload(client(), MODULES)
            calls = {"python -c pass": _bare, "train, result": lambda: _train(smx, RECEIVING, receive=["x"])}
            _print_round_trips(calls, count)
            _print_end(smx, count)
    _print_peers(count)


def _print_peers(count: int) -> None:
    """Print the same of other tools, whose processes would take time from the figures above."""
    print("other tools, a function that returns its argument")
    for name in [name for name in PEERS if not importlib.util.find_spec(name)]:
        print(f"  {name}: not installed here, not measured")
    with ExitStack() as stack:
        calls: dict[str, Call] = {"python -c pass": _bare}
        for name, peer in PEERS.items():
            if importlib.util.find_spec(name):
                calls[name] = stack.enter_context(peer())
        _print_round_trips(calls, count)


def _train(smx: Any, source: str, **options: Any) -> object:
    return smx.train(source, keep_alive=KEEP, **options).result()


def _print_round_trips(calls: dict[str, Call], count: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(-(-count // BLOCK)):
        for name, call in calls.items():
            for _ in range(BLOCK):
                time.sleep(PAUSE)
                seconds[name].append(_timed(call))
    bare = statistics.median(seconds["python -c pass"])
    for name, values in seconds.items():
        middle, tail = statistics.median(values), percentile(values, 0.99)
        print(f"  {name:30} p50 {middle * 1000:7.2f} ms = {middle / bare:5.2f} bare; p99 {tail * 1000:7.2f} ms")


def _print_end(smx: Any, count: int) -> None:
    """Print the time from the exit of a job's process to the moment when its client has the verdict."""
    ends, runs, bare = [], [], []
    for _ in range(count):
        time.sleep(PAUSE)
        job = smx.train("pass", keep_alive=KEEP).wait()
        known = time.time()
        at = job.latest_record.timings
        ends.append(known - at["exited"])
        runs.append(at["exited"] - at["first_line"])
        bare.append(_timed(_bare))
    unit = statistics.median(bare)
    for name, values in (("first line to exit", runs), ("exit to verdict in the kernel", ends)):
        print(
            f"  {name:30} p50 {statistics.median(values) * 1000:7.2f} ms = {statistics.median(values) / unit:5.2f} bare"
        )


def _print_rates(smx: Any, count: int) -> None:
    def jobs() -> None:
        for _ in range(count // RATE_BLOCKS):
            smx.train("pass", keep_alive=KEEP).wait()

    def items() -> None:
        smx.map(_identity, range(MAP_ITEMS), keep_alive=KEEP).results()

    def bares() -> None:
        for _ in range(count // RATE_BLOCKS):
            _bare()

    rates = (("jobs one after another", count, jobs), ("tasks of smx.map", RATE_BLOCKS * MAP_ITEMS, items))
    for name, done, call in rates:
        blocks = [(_timed(bares), _timed(call)) for _ in range(RATE_BLOCKS)]
        bare, seconds = (sum(each) for each in zip(*blocks, strict=True))
        print(f"  {name:30} {done / seconds:6.1f} a second = {done / seconds * bare / count:5.2f} of bare interpreters")


def _print_cpu(smx: Any, count: int) -> None:
    """Print what the controller and its agents compute for one job, without the processes of the jobs."""
    pid = client().controller_info().pid
    before = _cpu_seconds(pid)
    for _ in range(count):
        smx.train("pass", keep_alive=KEEP).wait()
    print(f"  {'CPU, controller and agent':30} {(_cpu_seconds(pid) - before) / count * 1000:7.2f} ms a job")


def _cpu_seconds(pid: int) -> float:
    """Sum the CPU time of a controller and of its children, which are agents."""
    from jupyter_smx.agent.system.processes import process  # noqa: PLC0415 - as above

    return sum(process.cpu_seconds(one) for one in [pid, *process.children(pid)])


def _bare() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _identity(item: int) -> int:
    return item


def _timed(call: Call) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def _module(name: str) -> Any:
    return importlib.import_module(name)


@contextmanager
def _loky() -> Iterator[Call]:
    pool = _module("loky").get_reusable_executor(max_workers=1)
    yield lambda: pool.submit(_identity, 1).result()
    pool.shutdown()


@contextmanager
def _distributed() -> Iterator[Call]:
    with _module("distributed").Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as dask:
        yield lambda: dask.submit(_identity, 1, pure=False).result()


@contextmanager
def _ray() -> Iterator[Call]:
    ray = _module("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(_identity)
    yield lambda: ray.get(remote.remote(1))
    ray.shutdown()


@contextmanager
def _ipyparallel() -> Iterator[Call]:
    with _module("ipyparallel").Cluster(n=1) as engines:
        yield lambda: engines[0].apply_sync(_identity, 1)


PEERS = {"loky": _loky, "distributed": _distributed, "ray": _ray, "ipyparallel": _ipyparallel}
