"""Places of S3 URIs on this machine: ``s3://bucket/key`` is the file ``<root>/bucket/key``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from jupyter_smx.aws.sagemaker.errors import validation_error
from jupyter_smx.aws.service import REAL_BUCKETS
from jupyter_smx.model.request_texts import PLACEHOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.aws.service import AwsError

_INPUT = "input data source"
_URI = re.compile(r"(?:https|s3)://(?P<bucket>[^/]+)/?(?P<key>.*)", re.DOTALL)
_GLOB = re.compile(r"([*?[])")


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URI.

    :raises AwsError: it is no URI of S3, or its key leads out of the bucket.
    """
    found = _URI.fullmatch(uri)
    if found is None or not uri.startswith("s3://"):
        raise validation_error(f"{uri!r} is not an S3 URI: it begins with s3:// and the name of a bucket.")
    bucket, key = found["bucket"], found["key"]
    if "\0" in uri or {".", ".."}.intersection((bucket, *key.split("/"))):
        raise validation_error(f"{uri!r} is not an S3 URI here: parts of its key may not be . or ..")
    return bucket, key


def local_path(uri: str, root: Path | None) -> str:
    """Return the path of an S3 URI on this machine; the URI itself if S3 is real (``root`` None).

    :raises AwsError: it is no URI of S3.
    """
    bucket, key = split_uri(uri)
    return uri if root is None else os.path.join(root, bucket, *key.split("/")).rstrip("/")  # noqa: PTH118 - may be no file


def bucket_uri(place: str, root: Path | None) -> str:
    """Return the S3 URI of a path in a bucket of this machine; any other path or URL as it is."""
    inner = "" if root is None else place.removeprefix("file://").removeprefix(f"{root}{os.sep}")
    return place if not inner or inner == place.removeprefix("file://") else f"s3://{inner}"


def put_placeholder(uri: str, name: str) -> str:
    """Write the placeholder of the job's name for each folder of a key that has this name.

    SDKs write the name into the destinations of a job. The record must not, or a rerun writes into the first job's.

    :raises AwsError: it is no URI of S3.
    """
    bucket, key = split_uri(uri)
    parts = (PLACEHOLDER if part == name else part for part in key.split("/"))
    return f"s3://{bucket}/{'/'.join(parts)}"


def find_source(uri: str, root: Path | None, recorded: str = "") -> str:
    """Return the source of a channel: a folder, a file, or a pattern for a part of a name.

    ``recorded`` is the URI that an error names, if it is not this one.

    :raises AwsError: nothing is there.
    """
    path = local_path(uri, root)
    is_folder = uri.endswith("/")
    if root is None or (os.path.isfile(path) and not is_folder) or _has_files(path):  # noqa: PTH113 - text
        return path
    if not is_folder and _begins_a_name(path):
        return _GLOB.sub(r"[\1]", path) + "*"
    raise _missing_error(recorded or uri, uri, root)


def read_file(uri: str, root: Path | None, where: str = _INPUT) -> str:
    """Return the path of an S3 URI that must be a file; ``where`` is the member that has it, for an error.

    :raises AwsError: there is no file.
    """
    path = local_path(uri, root)
    if root is not None and not os.path.isfile(path):  # noqa: PTH113 - text
        raise _missing_error(uri, uri, root, where)
    return path


def _missing_error(recorded: str, uri: str, root: Path, where: str = _INPUT) -> AwsError:
    """Return the error of a URI without objects; clients compare its beginning."""
    text = f'No S3 objects found under S3 URL "{recorded}" given in {where}.'
    bucket, _ = split_uri(uri)
    if not (root / bucket).is_dir():
        text += f" There is no bucket {bucket} here: buckets are folders of {root}. {REAL_BUCKETS}"
    return validation_error(text)


def _has_files(path: str) -> bool:
    """Return True if a folder has a file at any depth; it looks no further than the first one."""
    try:
        with os.scandir(path) as entries:
            folders = []
            for entry in entries:
                if not entry.is_dir():
                    return True
                if not entry.is_symlink():
                    folders.append(entry.path)
    except OSError:
        return False
    return any(map(_has_files, folders))


def _begins_a_name(path: str) -> bool:
    folder, part = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.startswith(part) and (entry.is_file() or _has_files(entry.path)) for entry in entries)
    except OSError:
        return False
