"""Hosts on nodes of a Slurm cluster beside hosts of this machine: warm and cold starts, bulk beside ``srun cat``.

Beside them: ``srun`` in a held allocation, and submitit if it is installed, which submits a batch job for each call.
The cluster is the one of the test world: another network, other users and processes, this kernel and these processors.
"""

from __future__ import annotations

import importlib.util
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
from bench.ssh import PAUSE, run_one
from bench.warm import HOPS, as_many, spans

if TYPE_CHECKING:
    import argparse

    from worlds.slurm.slurm_world import SlurmWorld

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "tests"))

ENGINES = {"local": "--engine local", "slurm": "--engine slurm --max-run 10m"}
COLD_STARTS = 5
AWAY = 60.0
"""Seconds for which the scheduler does not answer."""
_SUBMITIT = ("submitit", "cloudpickle", "typing_extensions")
"""What the account needs for submitit: packages and modules without compiled parts."""
_SUBMIT = """\
import os, time, submitit
executor = submitit.AutoExecutor(folder=os.path.expanduser("~/submitit"), cluster="slurm")
executor.update_parameters(timeout_min=5, cpus_per_task=1, slurm_additional_parameters={{"nodelist": {node!r}}})
for _ in range({count}):
    began = time.time()
    job = executor.submit(time.time)
    print("took", job.result() - began, time.time() - began)
"""
BULK = 30_000_000
"""Bytes of the file that goes to a node and comes back; the disk of a node has 256 MiB, and keeps some copies."""
TURNS = 9
"""Turns of bulk, each beside ``srun cat``: this machine's speed changes by a third within minutes."""
_TURNS_OF_POOL = 3
"""Turns after which a new pool begins, for the room on its node."""
_COPY = """\
print("begin")
import pathlib, shutil
(source,) = pathlib.Path("/opt/ml/input/data/big").iterdir()
shutil.copy(source, "/opt/ml/model")
"""


def run(options: argparse.Namespace) -> None:
    """Print all of them."""
    from worlds.slurm.cluster_files import SlurmSite  # noqa: PLC0415 - needs the tests' folder on the path
    from worlds.slurm.slurm_world import SlurmWorld  # noqa: PLC0415 - needs the tests' folder on the path

    with tempfile.TemporaryDirectory(prefix="smx-") as folder:
        site = SlurmSite(shared_home=True)  # for submitit; hosts are in /tmp all the same
        world = SlurmWorld.create(Path(folder, "w"), site)
        try:
            path = f"{world.programs}:{os.environ['PATH']}"
            with (
                configuration({"SlurmEngine": {"python": world.login.python, "variables": {"PATH": path}}}),
                notebook() as shell,
            ):
                _warm(shell, options)
                _direct(world, options)
                _submitit(world)
                _bulk(shell, world, Path(folder))
                _away(shell, world)
                _cold(shell, 1)
                _cold(shell, 3)
        finally:
            world.close()


def _warm(shell: Any, options: argparse.Namespace) -> None:
    """Measure warm starts and ends on this machine and on a node in turns, round by round."""
    for words in ENGINES.values():
        for _ in range(3):
            run_one(shell, words)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ENGINES}
    for _ in range(options.rounds):
        for _ in range(as_many(options.jobs, PAUSE) // 2):
            for name, words in ENGINES.items():
                time.sleep(PAUSE)
                rows[name].append(run_one(shell, words))
    print("warm")
    for what, start, end in (("start", "cell", "first_line"), ("end", "exited", "known")):
        middles = {name: percentile(spans(found, start, end), 0.5) for name, found in rows.items()}
        shown = "  ".join(f"{name} {value:6.2f}" for name, value in middles.items())
        print(f"  {what:6} p50 {shown} ms: {middles['slurm'] - middles['local']:+.2f} ms")
    for hop, start, end in HOPS:
        both = [spans(rows[name], start, end) for name in ENGINES]
        print(f"    {hop:22} " + "   ".join(f"{percentile(values, 0.5):7.2f}" for values in both))


def _direct(world: SlurmWorld, options: argparse.Namespace) -> None:
    """Measure ``srun`` of the same line in an allocation that is held, by the same shell on the login node."""
    job = world.run("sbatch --parsable --time=10 --output=/dev/null --wrap='sleep 600'").strip()
    while world.run(f"squeue --noheader --jobs={job} --format=%t").strip() != "R":
        time.sleep(0.1)
    python = world.login.python
    words = f"srun --jobid={job} --overlap --mem=0 --quiet {python} -c 'import time; print(time.time())'"
    times = []
    for _ in range(max(5, options.jobs // 5)):
        began = time.time()
        said = subprocess.run([world.programs / "sh", "-c", words], capture_output=True, text=True, check=True).stdout
        times.append((float(said) - began) * 1000)
    world.run(f"scancel {job}")
    print(f"srun in a held allocation: p50 {statistics.median(times):.0f} ms")


def _submitit(world: SlurmWorld) -> None:
    """Measure calls of submitit, from the login node to the function on an idle node and to the result."""
    found = [importlib.util.find_spec(name) for name in _SUBMITIT]
    origins = [Path(spec.origin) for spec in found if spec is not None and spec.origin is not None]
    if len(origins) < len(_SUBMITIT):
        print("submitit: not installed here, not measured")
        return
    release_all(client())
    library = world.login.home / "lib"
    for origin in origins:
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, library / origin.parent.name)
        else:
            shutil.copy(origin, library)
    node = world.nodes[0].host_name
    script = _SUBMIT.format(node=node, count=COLD_STARTS)
    said = world.login.run(f"PYTHONPATH=~/lib {world.login.python} -", text=script, timeout=300.0).stdout
    rows = [line.split()[1:] for line in said.splitlines() if line.startswith("took ")]  # submitit prints, too
    starts, results = zip(*(map(float, row) for row in rows), strict=True)
    print(f"submitit, a batch job for each call: {', '.join(f'{value * 1000:.0f}' for value in starts)} ms")
    print(f"  to the result: p50 {statistics.median(results):.1f} s")


def _bulk(shell: Any, world: SlurmWorld, folder: Path) -> None:
    """Carry a file to a node and a model back, and let ``srun cat`` carry as much in the same turn."""
    path = folder / "bulk.bin"
    path.write_bytes(os.urandom(BULK))
    megabytes = BULK / 1e6
    rates: dict[str, list[float]] = {name: [] for name in ("in", "out", "srun in", "srun out")}
    where = f"{ENGINES['slurm']} --disable-output-compression"
    for turn in range(TURNS):
        if turn % _TURNS_OF_POOL == 0:
            release_all(client())
            run_one(shell, where)
        with path.open("r+b") as file:
            file.write(secrets.token_bytes(16))  # another content, which the node has not
        row = run_one(shell, f"{where} --input big={path}", _COPY)
        rates["in"].append(megabytes / (row["first_line"] - row["accepted"]))
        rates["out"].append(megabytes / (row["known"] - row["exited"]))
        rates["srun in"].append(megabytes / _cat(world, path, into=True))
        rates["srun out"].append(megabytes / _cat(world, path.with_suffix(".out"), into=False))
    middles = {name: statistics.median(values) for name, values in rates.items()}
    for way in ("in", "out"):
        shares = sorted(ours / theirs for ours, theirs in zip(rates[way], rates[f"srun {way}"], strict=True))
        print(
            f"  {megabytes:.0f} MB {way:3}: {middles[way]:6.1f} MB/s, srun {middles[f'srun {way}']:6.1f} MB/s:", end=" "
        )
        print(f"{statistics.median(shares):.2f} of it ({TURNS} turns, {shares[0]:.2f} to {shares[-1]:.2f})")


def _cat(world: SlurmWorld, path: Path, *, into: bool) -> float:
    job = world.run("squeue --noheader --states=RUNNING --format=%A").split()[0]
    where = f"srun --jobid={job} --overlap --mem=0 --quiet --unbuffered --nodes=1 --ntasks=1"
    words = f"{where} sh -c 'cat > /tmp/bulk.bin'" if into else f"{where} cat /tmp/bulk.bin"
    began = time.perf_counter()
    with path.open("rb" if into else "wb") as file:
        pipes: dict[str, Any] = {"stdin": file} if into else {"stdin": subprocess.DEVNULL, "stdout": file}
        subprocess.run([world.programs / "sh", "-c", words], check=True, **pipes)
    return time.perf_counter() - began


def _away(shell: Any, world: SlurmWorld) -> None:
    """Measure warm starts while the scheduler does not answer, for all of the time."""
    run_one(shell, ENGINES["slurm"])
    found = []
    world.freeze_daemon(world.login, "slurmctld")
    try:
        end = time.monotonic() + AWAY
        while time.monotonic() < end:
            time.sleep(PAUSE)
            found.append(run_one(shell, ENGINES["slurm"]))
    finally:
        world.thaw_daemon(world.login, "slurmctld")
    cold = sum(not row["warm"] for row in found)
    middle, last = (percentile(spans(rows, "cell", "first_line"), 0.5) for rows in (found, found[-20:]))
    print(f"slurmctld away for {AWAY:.0f} s: {len(found)} jobs, {cold} of them cold")
    print(f"  warm start p50 {middle:.2f} ms, the last 20 {last:.2f} ms")


def _cold(shell: Any, hosts: int) -> None:
    """Start hosts on idle nodes; the archive is there after the first one."""
    rows = []
    for _ in range(COLD_STARTS):
        release_all(client())
        rows += spans([run_one(shell, f"{ENGINES['slurm']} --instance-count {hosts}")], "cell", "first_line")
    release_all(client())
    print(f"cold, {hosts} hosts: {', '.join(f'{value:.0f}' for value in rows)} ms")
