"""Store the metadata of objects in files beside the buckets, each bound to the very file that it describes.

A job that writes the file itself makes the metadata stale: size, time or inode differ, and the defaults hold again.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.s3.forms.object_headers import ObjectMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.aws.s3.storage.layout import S3Storage

IDENTITY = "file"


def identity(stat: os.stat_result) -> list[int]:
    """Return the numbers that change when a file is written or replaced."""
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]


def read(storage: S3Storage, bucket: str, key: str, stat: os.stat_result) -> ObjectMetadata:
    """Return the metadata of an object; empty where there is none for this very file."""
    fields = _load(storage.metadata_path(bucket, key))
    if fields.pop(IDENTITY, None) != ([] if key.endswith("/") else identity(stat)):
        return ObjectMetadata()
    return ObjectMetadata(**fields)


def write(storage: S3Storage, bucket: str, key: str, metadata: ObjectMetadata, stat: os.stat_result | None) -> None:
    """Replace the metadata of a key; ``stat`` is None for the marker of a folder."""
    with replacement(storage, bucket, key, metadata, stat):
        pass


@contextlib.contextmanager
def replacement(
    storage: S3Storage, bucket: str, key: str, metadata: ObjectMetadata, stat: os.stat_result | None
) -> Iterator[None]:
    """Write the metadata of a key before a block, and replace the old one after it, unless the block fails."""
    fields = metadata.to_json()
    if not fields and stat is not None:
        yield
        remove(storage, bucket, key)
        return
    path = storage.metadata_path(bucket, key)
    temporary = f"{path}.{storage.new_id()}"
    _write_new(temporary, {IDENTITY: [] if stat is None else identity(stat), **fields}, makes_folder=True)
    try:
        yield
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove(storage: S3Storage, bucket: str, key: str) -> None:
    """Remove the metadata of a key, if there is any."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(storage.metadata_path(bucket, key))


def has_marker(storage: S3Storage, bucket: str, key: str) -> bool:
    """Return True if a client made the folder of a key, which ends with a slash, as an object."""
    return os.path.exists(storage.metadata_path(bucket, key))


def create_json(path: str, content: Any) -> None:
    """Write a new file of state; raise FileExistsError where there is one."""
    _write_file(path, json.dumps(content).encode())


def write_json(path: str, content: Any, suffix: str, *, makes_folder: bool = True) -> None:
    """Replace a file of state at once, so that no reader sees a part of it."""
    temporary = f"{path}.{suffix}"
    _write_new(temporary, content, makes_folder=makes_folder)
    os.replace(temporary, path)


def _write_new(path: str, content: Any, *, makes_folder: bool) -> None:
    data = json.dumps(content, separators=(",", ":")).encode()
    try:
        _write_file(path, data)
    except FileNotFoundError:
        if not makes_folder:
            raise
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write_file(path, data)


def _write_file(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _load(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            fields = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def read_json(path: str) -> dict[str, Any]:
    """Return the content of a file of state; empty where there is none."""
    return _load(path)
