"""Inputs: what a warm host does before a job whose data it has, and the start of FastFile whatever its size."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.place import client, place, release_all
from jupyter_smx.testing.servers.object_storage import serve

if TYPE_CHECKING:
    import argparse

    from jupyter_smx.testing.servers.object_storage import Bucket

SIZE = 1 << 30
MANY = 10_000
OBJECTS = 100
PIECE = 1 << 20
"""Bytes of each of the many files of FastFile, which have no content: 10 GB that take no room."""


def run(options: argparse.Namespace) -> None:
    """Print the staging of File mode, first and again, and the start of FastFile beside that of an empty folder."""
    with tempfile.TemporaryDirectory(prefix="smx-data-", dir=Path.home()) as folder, place():
        sources = _sources(Path(folder))
        _start("", "")  # the host is made
        for name in ("one file of 1 GB", "10,000 files of 4 KB"):
            first = _start(sources[name], "File")
            again = [_start(sources[name], "File") for _turn in range(options.rounds * 3)]
            print(f"File, {name}: staged in {first:.0f} ms, again in {median(again):.0f} ms (most {max(again):.0f} ms)")
        pairs = [_pair(sources) for _turn in range(options.rounds * 10)]
        empty, full = (median(one) for one in zip(*pairs, strict=True))
        print(f"FastFile, 10 GB in 10,000 files: staged in {full:.2f} ms, an empty folder in {empty:.2f} ms", end=" ")
        print(f"= {full / empty:.2f} times as long")
        with serve(Path(folder) / "s3") as bucket:
            print(_first_bytes(bucket))
        release_all(client())  # what the host kept takes a while to delete


FIRST = """
import os, time
top = os.environ["SM_CHANNEL_TRAIN"]
os.listdir(top)
for name in sorted(os.listdir(top)):
    began = time.perf_counter()
    with open(os.path.join(top, name), "rb", buffering=0) as file:
        file.read(1)
    print(time.perf_counter() - began)
"""


def _first_bytes(bucket: Bucket) -> str:
    for number in range(OBJECTS):
        bucket.put(f"d/{number}", "x" * 100_000)
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here
    from jupyter_smx.model.spec.channel import Channel  # noqa: PLC0415 - the same

    inputs = {"train": Channel(name="train", source="s3://bucket/d/", mode="FastFile")}
    job = smx.train(FIRST, inputs=inputs, environment=bucket.environment, keep_alive="10m").wait(600)
    took = sorted(1e3 * float(line) for line in job.logs().splitlines())
    notes = job.record.provenance.notes if job.record.provenance else ()
    return (
        f"FastFile of S3 on loopback, {len(took)} objects of 100 kB: first byte in {median(took):.1f} ms, "
        f"slowest {took[-1]:.1f} ms {' '.join(notes)}"
    )


def _pair(sources: dict[str, str]) -> tuple[float, float]:
    return _start(sources["nothing"], "FastFile"), _start(sources["10 GB"], "FastFile")


def _sources(folder: Path) -> dict[str, str]:
    for name in ("one", "small", "none", "many"):
        (folder / name).mkdir()
    content = os.urandom(1 << 20)
    with (folder / "one" / "data").open("wb") as file:
        for _piece in range(SIZE // len(content)):
            file.write(content)
    for number in range(MANY):
        (folder / "small" / f"{number}").write_bytes(number.to_bytes(4, "big") * 1024)
        with (folder / "many" / f"{number}").open("wb") as file:
            file.truncate(PIECE)
    os.sync()
    names = {"one file of 1 GB": "one", "10,000 files of 4 KB": "small", "nothing": "none", "10 GB": "many"}
    # Of files that were just written nothing is believed, so they are as old as data is.
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return {name: str(folder / inside) for name, inside in names.items()}


def _start(source: str, mode: Any) -> float:
    """Give the milliseconds from the arrival at the host to the moment in which its process is told to begin."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here
    from jupyter_smx.model.spec.channel import Channel  # noqa: PLC0415 - the same

    inputs = {"train": Channel(name="train", source=source, mode=mode)} if source else {}
    job = smx.train("pass", inputs=inputs, keep_alive="10m")
    record = job.wait(600).record
    return 1e3 * float(record.timings["awake"] - record.timings["received"])
