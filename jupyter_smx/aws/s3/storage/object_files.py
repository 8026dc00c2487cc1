"""Read, replace and remove objects, each of which is a plain file, or a folder for a key that ends with a slash."""

from __future__ import annotations

import contextlib
import os
import stat as stat_modes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.forms.conditions import check_write
from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.layout import S3Storage, is_below
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.s3.forms.object_headers import ObjectMetadata
    from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile

EMPTY_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'
_changes = threading.Lock()
"""Held while an object and its metadata change places; both are renames, so it is short."""


@dataclass(frozen=True)
class ObjectFile:
    """An object as it is on the disk."""

    path: str
    size: int
    modified: float
    etag: str
    metadata: ObjectMetadata


def format_etag(stat: os.stat_result) -> str:
    """Return the ETag of a file: one of its state, since a digest would need all bytes of what a job wrote."""
    return f'"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"'


def no_such_key(key: str) -> AwsError:
    """Return the error for a key without an object."""
    return AwsError("NoSuchKey", f"The specified key does not exist: {key}.", 404)


def find_object(storage: S3Storage, bucket: str, key: str) -> ObjectFile:
    """Return the object of a key; raise AwsError (404) where there is none."""
    storage.existing_bucket(bucket)
    try:
        path = storage.object_path(bucket, key)
    except AwsError as error:
        if error.code in {"InvalidArgument", "KeyTooLongError"}:
            raise no_such_key(key) from None
        raise
    stat = _stat_within(path, f"{storage.root}/{bucket}")
    is_folder = key.endswith("/")
    if stat is None or stat_modes.S_ISDIR(stat.st_mode) is not is_folder:
        raise no_such_key(key)
    if is_folder and not metadata_files.has_marker(storage, bucket, key):
        raise no_such_key(key)
    metadata = metadata_files.read(storage, bucket, key, stat)
    if is_folder:
        return ObjectFile(path, 0, stat.st_mtime, EMPTY_ETAG, metadata)
    return ObjectFile(path, stat.st_size, stat.st_mtime, format_etag(stat), metadata)


def _stat_within(path: str, folder: str) -> os.stat_result | None:
    """Return the state of a file or folder; None for anything else, and for a link out of the bucket."""
    try:
        stat = os.lstat(path)
        if stat_modes.S_ISLNK(stat.st_mode):
            if not is_below(os.path.realpath(path), os.path.realpath(folder)):
                return None
            stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with translated():
        return stat if stat_modes.S_ISREG(stat.st_mode) or stat_modes.S_ISDIR(stat.st_mode) else None


def open_object(found: ObjectFile, key: str) -> int:
    """Return a descriptor of the very file that was found; raise AwsError where it was replaced in between."""
    with translated():
        try:
            descriptor = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise no_such_key(key) from None
    if format_etag(os.fstat(descriptor)) != found.etag:
        os.close(descriptor)
        raise AwsError("SlowDown", f"The object {key!r} changed while it was opened; try again.", 503)
    return descriptor


def find_etag(storage: S3Storage, bucket: str, key: str) -> str | None:
    """Return the ETag of a key's object; None where there is none."""
    try:
        return find_object(storage, bucket, key).etag
    except AwsError as error:
        if error.code == "NoSuchKey":
            return None
        raise


def check_place(storage: S3Storage, bucket: str, key: str, conditions: Mapping[str, str]) -> None:
    """Raise AwsError where an object cannot be put: bad key, no bucket, a file among its folders, a condition."""
    path = storage.object_path(bucket, key)
    check_write(conditions, find_etag(storage, bucket, key))
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise _file_and_folder(key)


def put_object(
    storage: S3Storage,
    file: TemporaryFile,
    place: tuple[str, str],
    metadata: ObjectMetadata,
    conditions: Mapping[str, str],
) -> ObjectFile:
    """Make a complete file the object of bucket and key; the old one is there until the new one is."""
    bucket, key = place
    if key.endswith("/"):
        return _put_folder(storage, file, place, metadata, conditions)
    with _changes, translated():
        check_place(storage, bucket, key, conditions)
        path = storage.object_path(bucket, key)
        _make_folders(os.path.dirname(path), key)
        if os.path.isdir(path) and not os.path.islink(path):
            _remove_unused_folder(storage, bucket, key, path)
        stat = file.stat()
        with metadata_files.replacement(storage, bucket, key, metadata, stat):
            file.move(path)
    return ObjectFile(path, stat.st_size, stat.st_mtime, format_etag(stat), metadata)


def _put_folder(
    storage: S3Storage,
    file: TemporaryFile,
    place: tuple[str, str],
    metadata: ObjectMetadata,
    conditions: Mapping[str, str],
) -> ObjectFile:
    bucket, key = place
    if file.size:
        raise AwsError(
            "InvalidArgument",
            f"The key {key!r} ends with a slash, so it is a folder here and cannot have {file.size} bytes. "
            "Leave the slash out.",
        )
    with _changes, translated():
        check_place(storage, bucket, key, conditions)
        path = storage.object_path(bucket, key)
        _make_folders(path, key)
        metadata_files.write(storage, bucket, key, metadata, None)
        return ObjectFile(path, 0, os.stat(path).st_mtime, EMPTY_ETAG, metadata)


def _make_folders(path: str, key: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _file_and_folder(key) from None


def _remove_unused_folder(storage: S3Storage, bucket: str, key: str, path: str) -> None:
    """Make place for a key whose name is that of a folder without any file, as deleted objects leave it."""
    is_marker = metadata_files.has_marker(storage, bucket, f"{key}/")
    if is_marker or not remove_empty_folders(path):
        raise _file_and_folder(key)


def remove_empty_folders(path: str) -> bool:
    """Remove a folder that contains nothing but folders; return False, with some removed, where it has a file."""
    for folder, _, files in os.walk(path, topdown=False):
        if files:
            return False
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return True


def _file_and_folder(key: str) -> AwsError:
    return AwsError(
        "InvalidArgument",
        f"The key {key!r} needs a file and a folder of one name. S3 allows both, a file system does not, and here keys "
        "are paths. Choose another key.",
    )


def set_metadata(storage: S3Storage, bucket: str, key: str, found: ObjectFile) -> None:
    """Replace the metadata of an object without a change of its file."""
    with _changes, translated():
        stat = None if key.endswith("/") else os.stat(found.path)
        metadata_files.write(storage, bucket, key, found.metadata, stat)


def delete_object(storage: S3Storage, bucket: str, key: str) -> None:
    """Remove an object; do nothing where there is none.

    Folders stay: one of them may be the checkpoint folder of a running job. Listings leave out folders without files.
    """
    with _changes, translated():
        try:
            path = find_object(storage, bucket, key).path
        except AwsError as error:
            if error.code == "NoSuchKey":
                return
            raise
        if not key.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        metadata_files.remove(storage, bucket, key)
