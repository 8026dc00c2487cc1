"""Containers beside processes: warm starts of both in turns, cold ones beside ``docker run``, and many jobs in one."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from bench.place import client, notebook, percentile, release_all
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
    """Print the three."""
    with _daemon() as host, notebook() as shell:
        for where in PLACES.values():
            run_one(shell, (), where)
            measure(shell, (), 10, 0.0, where)
        for label, pause in LOADS:
            _warm(shell, label, pause, options)
        _many(shell, host)
        _cold(shell, host, options.rounds * 5)


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


def _use(host: str) -> Use:
    """Look at the only container of ours."""
    [container] = _ask(host, "ps", "-q", "--no-trunc", "--filter", "label=jupyter-smx.cluster").split()
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
        began = time.time()
        theirs.append((float(_ask(host, "run", "--rm", IMAGE, "python3", "-c", SAY_TIME)) - began) * 1000)
    mine, plain = statistics.median(ours), statistics.median(theirs)
    print(
        f"cold: {mine:.0f} ms to the first line, docker run {plain:.0f} ms: {mine / plain:.2f} times as long", end=" "
    )
    print(f"({min(ours):.0f} to {max(ours):.0f} ms, {min(theirs):.0f} to {max(theirs):.0f} ms)")
