"""Find the paths of buckets, objects and state, and keep every path within its bucket."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from jupyter_smx.aws.s3.forms.object_keys import check_bucket_name, split_key
from jupyter_smx.aws.service import REAL_BUCKETS, AwsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATE = ".smx"
"""The folder of all state in the root; buckets cannot have this name."""


@dataclass(frozen=True)
class S3Storage:
    """The root folder of all buckets, with the clock and ids that operations use."""

    root: Path
    clock: Callable[[], float]
    new_id: Callable[[], str]
    """Return a new id of 32 hexadecimal digits."""
    machine: str = field(default_factory=socket.gethostname)

    def bucket_path(self, bucket: str) -> str:
        """Return the path of a bucket's folder, which may not exist; raise AwsError for a name that none can have."""
        check_bucket_name(bucket)
        return f"{self.root}/{bucket}"

    def existing_bucket(self, bucket: str) -> str:
        """Return the path of a bucket's folder; raise AwsError (404) where there is none. A link is no bucket."""
        path = self.bucket_path(bucket)
        if os.path.islink(path) or not os.path.isdir(path):
            text = f"The specified bucket does not exist: {bucket}. Buckets here are folders of {self.root}."
            raise AwsError("NoSuchBucket", f"{text} {REAL_BUCKETS}", 404)
        return path

    def object_path(self, bucket: str, key: str) -> str:
        """Return the path of a key in an existing bucket; raise AwsError where the key or a link leaves the bucket."""
        folder = self.existing_bucket(bucket)
        path = "/".join((folder, *split_key(key).names))
        parent = os.path.realpath(os.path.dirname(path))
        if not is_below(parent, os.path.realpath(folder)):
            raise AwsError("AccessDenied", leaving_text(key), 403)
        return path

    def state_path(self, bucket: str) -> str:
        """Return the folder of a bucket's state, which may not exist."""
        return f"{self.root}/{STATE}/buckets/{bucket}"

    def metadata_path(self, bucket: str, key: str) -> str:
        """Return the path of the metadata of a key; keys can be longer than names of files, so it is a digest."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.state_path(bucket)}/objects/{digest[:2]}/{digest[2:42]}.json"

    def temporary_path(self) -> str:
        """Return a new path for a file in the same file system as the buckets, and create its folder."""
        folder = temporary_folder(self.root, self.machine)
        os.makedirs(folder, exist_ok=True)
        return f"{folder}/{self.new_id()}"


def temporary_folder(root: Path, machine: str) -> str:
    """Return the folder of the unfinished files of one machine, since fronts of several may share a root by network."""
    return f"{root}/{STATE}/temporary/host-{quote(machine, safe='')}"


def is_below(path: str, folder: str) -> bool:
    """Return True if a real path is a real folder or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def leaving_text(key: str) -> str:
    """Return the sentence of the refusal of a key whose link leads out of its bucket."""
    return f"The key {key!r} leads out of the bucket by a link, which is refused."
