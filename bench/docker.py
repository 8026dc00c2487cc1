"""Containers beside processes, ``docker run`` and ``docker exec``: warm and cold starts in turns, many jobs in one."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from bench.place import client, configuration, notebook, percentile, print_machine, release_all
from bench.warm import HOPS, as_many, measure, run_one, spans
from jupyter_smx.testing.docker import dockerd, images

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

IMAGE = images.PYTHON.name
PLACES = {"local": "--engine local", "docker": f"--engine docker --image {IMAGE}"}
LOADS = (("pauses of 2 s", 2.0), ("pauses of 150 ms", 0.15), ("back to back", 0.0))
JOBS = 300
"""One after another through one container."""
SETTLED = 20
"""Jobs before anything is counted: the first ones fill caches."""
SAY_TIME = "import time; print(time.time())"
AT_ONCE = 6
"""Cold starts at the same time."""


class Use(NamedTuple):
    """What a host holds: MB of its container that no file is behind, MB and descriptors of all of its processes."""

    container: float
    processes: float
    descriptors: int


@contextlib.contextmanager
def _daemon() -> Iterator[str]:
    """Give where a daemon with the images answers; one is started where none does."""
    from docker import DockerClient  # noqa: PLC0415 - only wanted here

    host, own = dockerd.find_daemon(), dockerd.Dockerd(dockerd.daemon_folder(), apart=True)
    if not host:
        why = dockerd.unavailable_reason()
        if why:
            raise SystemExit(why)
        own.start(tied=True)
    try:
        talk = DockerClient(base_url=host or own.host, timeout=120)
        images.load(talk)
        talk.close()
        os.environ["DOCKER_HOST"] = host or own.host
        yield host or own.host
    finally:
        if not host:
            own.stop()


def run(options: argparse.Namespace) -> None:
    """Print all of them."""
    # The cold starts at once have room: jobs that wait for it would take the warm hosts of those before them.
    room = configuration({"ControllerApp": {"cpus": AT_ONCE, "max_hosts": AT_ONCE}})
    with _daemon() as host, room, notebook() as shell:
        print_machine()
        for where in PLACES.values():
            run_one(shell, (), where)
            measure(shell, (), 10, 0.0, where)
        for label, pause in LOADS:
            _warm(shell, label, pause, options)
        _many(shell, host)
        _cold(shell, host, options.rounds * 5)
        _together(host, options.rounds)
        _exec(shell, host, options.rounds * 5)


def _warm(shell: Any, label: str, pause: float, options: argparse.Namespace) -> None:
    """Measure warm starts of both in turns, round by round."""
    rounds: dict[str, list[list[dict[str, float]]]] = {name: [] for name in PLACES}
    for _ in range(options.rounds):
        for name, where in PLACES.items():
            rounds[name].append(measure(shell, (), as_many(options.jobs, pause), pause, where))
    middles = {}
    print(label)
    for name, found in rounds.items():
        each = [spans(rows, "magic", "first_line") for rows in found]
        middles[name] = statistics.median(percentile(values, 0.5) for values in each)
        tail = statistics.median(percentile(values, 0.99) for values in each)
        print(f"  {name:8} p50 {middles[name]:6.2f} ms  p99 {tail:6.2f} ms to the first line")
    print(f"  docker takes {middles['docker'] - middles['local']:+.2f} ms; p50 and p99 of each hop, local then docker:")
    rows = {name: [row for one in found for row in one] for name, found in rounds.items()}
    for hop, start, end in HOPS:
        both = [spans(rows[name], start, end) for name in PLACES]
        shown = "   ".join(f"{percentile(values, 0.5):7.2f} {percentile(values, 0.99):7.2f}" for values in both)
        print(f"    {hop:22} {shown}")


def _ask(host: str, *words: str) -> str:
    command = ["docker", "--host", host, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _container(host: str) -> str:
    [found] = _ask(host, "ps", "-q", "--no-trunc", "--filter", "label=jupyter-smx.cluster").split()
    return found


def _use(host: str) -> Use:
    """Look at the only container of ours."""
    container = _container(host)
    init = psutil.Process(int(_ask(host, "inspect", "--format", "{{.State.Pid}}", container)))
    inside = [init, *init.children(recursive=True)]
    found = [one for one in inside if one.is_running()]
    memory = sum(_memory(one.pid) for one in found)
    return Use(_anonymous(init.pid), memory, sum(one.num_fds() for one in found))


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def _anonymous(pid: int) -> float:
    """Read what the system counts for the container, without the files that it could forget."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    memory = next((path for names, path in groups.items() if "memory" in names.split(",")), None)
    top = Path("/sys/fs/cgroup", *([] if memory is None else ["memory"]))
    folder = Path(f"{top}{memory if memory is not None else groups['']}")
    said = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    names = ("anon", "shmem", "slab_unreclaimable") if memory is None else ("total_rss", "total_shmem")
    return sum(int(said.get(name, 0)) for name in names) / 2**20


def _many(shell: Any, host: str) -> None:
    measure(shell, (), SETTLED, 0.0, PLACES["docker"])
    time.sleep(2.0)  # an idle host tidies up
    before = _use(host)
    began = time.perf_counter()
    measure(shell, (), JOBS, 0.0, PLACES["docker"])
    took = time.perf_counter() - began
    time.sleep(2.0)
    after = _use(host)
    print(f"{JOBS} jobs one after another through one container: {JOBS / took:.0f} jobs/s")
    for name, old, new in zip(Use._fields, before, after, strict=True):
        unit = "" if name == "descriptors" else " MB"
        print(f"  {name:12} {old:.1f}{unit} before, {new:.1f}{unit} after" if unit else f"  {name:12} {old}, {new}")


def _cold(shell: Any, host: str, count: int) -> None:
    """Start hosts and plain containers of the same image in turns."""
    ours, theirs = [], []
    for _ in range(count):
        release_all(client())
        ours += spans([run_one(shell, (), PLACES["docker"])], "magic", "first_line")
        theirs.append(_plain(host, "run", "--rm", IMAGE))
    _print_ratio("cold", ours, "docker run", theirs)


def _plain(host: str, *words: str) -> float:
    """Return the milliseconds until a Python that Docker's own command starts prints its first line."""
    began = time.time()
    return (float(_ask(host, *words, "python3", "-c", SAY_TIME)) - began) * 1000


def _together(host: str, rounds: int) -> None:
    """Start several hosts at once, and as many plain containers, in turns; the last first line of each counts."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    ours, theirs = [], []
    for _ in range(rounds):
        release_all(client())
        began = time.time()
        jobs = [smx.train(SAY_TIME, engine="docker", image=IMAGE, keep_alive="10m") for _ in range(AT_ONCE)]
        ours.append(max((float(job.wait().logs()) - began) * 1000 for job in jobs))
        if any(job.latest_record.why.start != "cold" for job in jobs):
            raise SystemExit("a start at once was not cold")
        release_all(client())
        with ThreadPoolExecutor(AT_ONCE) as threads:
            began = time.time()
            runs = [threads.submit(_ask, host, "run", "--rm", IMAGE, "python3", "-c", SAY_TIME) for _ in range(AT_ONCE)]
            theirs.append(max((float(each.result()) - began) * 1000 for each in runs))
    _print_ratio(f"{AT_ONCE} cold at once", ours, f"{AT_ONCE} docker run", theirs)


def _exec(shell: Any, host: str, count: int) -> None:
    """Run jobs in a warm host, and plain processes in its container, in turns."""
    run_one(shell, (), PLACES["docker"])
    container, ours, theirs = _container(host), [], []
    for _ in range(count):
        ours += spans(measure(shell, (), 1, 0.15, PLACES["docker"]), "magic", "first_line")
        theirs.append(_plain(host, "exec", container))
    _print_ratio("warm", ours, "docker exec", theirs)


def _print_ratio(ours: str, mine: list[float], theirs: str, plain: list[float]) -> None:
    """Print medians in milliseconds to the first line, their ratio, and both ranges."""
    middle, other = statistics.median(mine), statistics.median(plain)
    print(f"{ours}: {middle:.0f} ms to the first line, {theirs} {other:.0f} ms: {middle / other:.3g} times", end=" ")
    print(f"({min(mine):.0f} to {max(mine):.0f} ms, {min(plain):.0f} to {max(plain):.0f} ms)")
