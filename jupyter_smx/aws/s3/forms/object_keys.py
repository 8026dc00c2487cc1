"""Check the names of buckets and keys, and split keys into the names of folders and files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_smx.aws.service import AwsError

BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
MAX_KEY = 1024
MAX_NAME = 255
"""Bytes that a file system stores in one name."""


@dataclass(frozen=True)
class KeyPath:
    """A key as names of folders and, unless ``is_folder``, of a file."""

    names: tuple[str, ...]
    is_folder: bool
    """True for a key that ends with a slash: the marker of a folder."""


def is_bucket_name(name: str) -> bool:
    """Return True if a name is one that S3 accepts for a bucket."""
    return BUCKET.fullmatch(name) is not None and ".." not in name and ADDRESS.fullmatch(name) is None


def check_bucket_name(name: str) -> None:
    """Raise AwsError for a name that no bucket can have."""
    if not is_bucket_name(name):
        raise AwsError(
            "InvalidBucketName",
            f"The bucket name {name!r} is not valid: 3 to 63 lower-case letters, digits, dots and hyphens, "
            "with a letter or digit at both ends, no two dots in a row, and no IP address.",
        )


def split_key(key: str) -> KeyPath:
    """Return the names in a key; raise AwsError for a key that no file can have."""
    encoded = key.encode("utf-8", "surrogateescape")
    if len(encoded) > MAX_KEY:
        raise AwsError("KeyTooLongError", f"The key has {len(encoded)} bytes; at most {MAX_KEY} are allowed.")
    is_folder = key.endswith("/")
    names = tuple((key[:-1] if is_folder else key).split("/"))
    if reason := next(filter(None, map(_fault, names)), None):
        raise AwsError("InvalidArgument", f"The key {key!r} cannot be a path below a folder: {reason}.")
    return KeyPath(names, is_folder)


def _fault(name: str) -> str:
    """Return why a name cannot be that of a file; empty if it can."""
    if name in {"", ".", ".."}:
        return f"a part between slashes is {name!r}; write each folder by its name and one slash"
    if "\0" in name:
        return "it has a zero byte; leave it out"
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME:
        return f"the part {name[:20]!r}… has more than {MAX_NAME} bytes, the most of one name; shorten it"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return ""
