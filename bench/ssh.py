"""Hosts that SSH reaches beside hosts of this machine: warm and cold starts, ends of jobs, bulk beside ``scp``.

The machine is one of the test world: another network, other users and processes, and this kernel and these processors.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.place import client, configuration, notebook, percentile, release_all
from bench.warm import HOPS, as_many, spans

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

    from worlds.ssh.ssh_world import SshWorld

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "tests"))

NEAR, FAR = "smx-one", "smx-two"
DELAY = 0.04
"""Seconds of a round trip to a machine that is far away."""
BULK = 60_000_000
"""Bytes of the file that goes there and comes back; the disk of the machine has 512 MiB."""
_COPY = """\
print("begin")
import pathlib, shutil
(source,) = pathlib.Path("/opt/ml/input/data/big").iterdir()
shutil.copy(source, "/opt/ml/model")
"""
PAUSE = 0.1
COLD_STARTS = 7


def run(options: argparse.Namespace) -> None:
    """Print all of them."""
    from worlds.ssh.ssh_world import SshWorld  # noqa: PLC0415 - needs the tests' folder on the path

    with tempfile.TemporaryDirectory(prefix="smx-") as folder:
        world = SshWorld.create(Path(folder, "w"))
        try:
            _describe()
            world[FAR].set_clock(0.0)
            world[FAR].delay(DELAY)
            files = _Files(Path(folder))
            with _configuration(world), notebook() as shell:
                _warm(shell, "warm", NEAR, "", options)
                _warm(shell, "warm, 1 MB variable and source folder unchanged", NEAR, files.options, options)
                _bulk(shell, world, NEAR, files.new(BULK))
                _cold(shell)
                _warm(shell, f"warm, {DELAY * 1000:.0f} ms round trip", FAR, "", options)
                _bulk(shell, world, FAR, files.new(BULK))
        finally:
            world.close()


def _describe() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    print(f"{os.cpu_count()} processors, {memory:.0f} GiB, Linux {os.uname().release}, Python {sys.version.split()[0]}")


class _Files:
    """What jobs get: a variable, a folder of code, a file that is new each time."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.source.mkdir()
        for number in range(20):
            (self.source / f"module_{number}.py").write_text(f"VALUE = {number}\n" * 50)
        self.folder = folder
        self.options = f"--send payload --source-dir {self.source}"

    def new(self, size: int) -> Path:
        """Write a file that no machine has."""
        path = self.folder / f"{secrets.token_hex(4)}.bin"
        with path.open("wb") as file:
            for _ in range(size // 1_000_000):
                file.write(os.urandom(1_000_000))
        return path


def _configuration(world: SshWorld) -> AbstractContextManager[None]:
    """Let controllers read a configuration with the world's machines."""
    machines = {name: {"slots": 8} for name in (NEAR, FAR)}
    return configuration({"SshEngine": {"config_file": os.fspath(world.config_file), "machines": machines}})


def run_one(shell: Any, words: str, code: str = "import time\nprint(time.time())") -> dict[str, float]:
    """Run one job and give its moments, seconds since the epoch."""
    began = time.time()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(f"%%train --name bench --keep-alive 10m --as job {words}\n{code}")
        record = shell.user_ns["job"].wait(300).record
        known = time.time()
    if record.status().value != "Completed":
        raise SystemExit(f"{record.name}: {record.failure_reason}")
    return {**record.timings, "cell": began, "known": known, "warm": float(record.why.start == "warm")}


def _engines(machine: str) -> dict[str, str]:
    return {"local": "local", "ssh": f"ssh:{machine}"}


def _warm(shell: Any, label: str, machine: str, more: str, options: argparse.Namespace) -> None:
    """Measure warm starts and ends on this machine and the other one in turns, round by round."""
    engines = _engines(machine)
    shell.user_ns["payload"] = os.urandom(1_000_000)
    for engine in engines.values():
        for _ in range(3):
            run_one(shell, f"--engine {engine} {more}")
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
    for _ in range(options.rounds):
        for _ in range(as_many(options.jobs, PAUSE) // 2):
            for name, engine in engines.items():
                time.sleep(PAUSE)
                rows[name].append(run_one(shell, f"--engine {engine} {more}"))
    print(label)
    for what, start, end in (("start", "cell", "first_line"), ("end", "exited", "known")):
        middles = {name: percentile(spans(found, start, end), 0.5) for name, found in rows.items()}
        shown = "  ".join(f"{name} {value:6.2f}" for name, value in middles.items())
        print(f"  {what:6} p50 {shown} ms: {middles['ssh'] - middles['local']:+.2f} ms")
    for hop, start, end in HOPS:
        both = [spans(rows[name], start, end) for name in engines]
        print(f"    {hop:22} " + "   ".join(f"{percentile(values, 0.5):7.2f}" for values in both))


def _bulk(shell: Any, world: SshWorld, machine: str, path: Path) -> None:
    """Carry a file there and a model back, and let ``scp`` carry as much, three times in turns."""
    rates: dict[str, list[float]] = {name: [] for name in ("in", "out", "scp in", "scp out")}
    where = f"--engine ssh:{machine} --disable-output-compression"
    run_one(shell, where)
    for _ in range(3):
        with path.open("r+b") as file:
            file.write(secrets.token_bytes(16))  # another content, which the machine has not
        megabytes = path.stat().st_size / 1e6
        row = run_one(shell, f"{where} --input big={path}", _COPY)
        rates["in"].append(megabytes / (row["first_line"] - row["accepted"]))
        rates["out"].append(megabytes / (row["known"] - row["exited"]))
        rates["scp in"].append(megabytes / _scp(world, os.fspath(path), f"{machine}:scp.bin"))
        rates["scp out"].append(megabytes / _scp(world, f"{machine}:scp.bin", os.fspath(path.with_suffix(".out"))))
    middles = {name: statistics.median(values) for name, values in rates.items()}
    for way in ("in", "out"):
        ours, theirs = middles[way], middles[f"scp {way}"]
        print(f"  {megabytes:.0f} MB {way:3}: {ours:6.1f} MB/s, scp {theirs:6.1f} MB/s: {ours / theirs:.2f} of it")


def _scp(world: SshWorld, source: str, target: str) -> float:
    began = time.perf_counter()
    subprocess.run([shutil.which("scp") or "scp", "-q", "-F", os.fspath(world.config_file), source, target], check=True)
    return time.perf_counter() - began


def _cold(shell: Any) -> None:
    """Start hosts of both engines in turns; the archive is there, and the connection is open."""
    engines = _engines(NEAR)
    rows: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(COLD_STARTS):
        for name, engine in engines.items():
            release_all(client())
            rows[name] += spans([run_one(shell, f"--engine {engine}")], "cell", "first_line")
    shown = ", ".join(f"{name} {statistics.median(values):.0f} ms" for name, values in rows.items())
    print(f"cold: {shown}")
