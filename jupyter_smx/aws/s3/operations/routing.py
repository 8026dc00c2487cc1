"""Find the operation of a request from its method, its path, its query and the header of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.operations import (
    bucket_operations,
    list_operations,
    object_operations,
    part_operations,
)
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.aws.s3.operations.call import S3Answer, S3Call
    from jupyter_smx.aws.s3.storage.part_slot import PartSlot
    from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile

SUBRESOURCES = {
    "acl", "analytics", "attributes", "delete", "intelligent-tiering", "inventory", "legal-hold", "location",
    "metrics", "ownershipControls", "policyStatus", "restore", "retention", "select", "session", "torrent", "uploads",
    "uploadId", "versionId", "versions", *bucket_operations.EMPTY_CONFIGURATIONS,
    *bucket_operations.MISSING_CONFIGURATIONS,
}  # fmt: skip
"""Parameters of the query that ask for something else than the object or the bucket itself."""


@dataclass(frozen=True)
class S3Operation:
    """An operation, and how its body and its answer are treated."""

    act: Callable[[S3Call], S3Answer]
    is_slow: bool = False
    """True for one that copies as many bytes as an object has, of which the client reads blanks meanwhile."""
    open_file: Callable[[S3Call], TemporaryFile | PartSlot] | None = None
    """Check the request before its body comes, and return the file for the body, which is an object."""


OBJECT_OPERATIONS = {
    ("PUT", ""): S3Operation(object_operations.put_object, open_file=object_operations.open_object_file),
    ("PUT", "copy"): S3Operation(object_operations.copy_object, is_slow=True),
    ("GET", ""): S3Operation(object_operations.get_object),
    ("HEAD", ""): S3Operation(object_operations.head_object),
    ("DELETE", ""): S3Operation(object_operations.delete_object),
    ("POST", "uploads"): S3Operation(part_operations.create_upload),
    ("PUT", "uploadId"): S3Operation(part_operations.upload_part, open_file=part_operations.open_part),
    ("PUT", "uploadId copy"): S3Operation(part_operations.upload_part_copy, is_slow=True),
    ("POST", "uploadId"): S3Operation(part_operations.complete_upload, is_slow=True),
    ("DELETE", "uploadId"): S3Operation(part_operations.abort_upload),
    ("GET", "uploadId"): S3Operation(part_operations.list_parts),
    ("GET", "tagging"): S3Operation(object_operations.get_tags),
    ("PUT", "tagging"): S3Operation(object_operations.put_tags),
    ("DELETE", "tagging"): S3Operation(object_operations.delete_tags),
    ("GET", "acl"): S3Operation(bucket_operations.get_acl),
}
BUCKET_OPERATIONS = {
    ("PUT", ""): S3Operation(bucket_operations.create_bucket),
    ("HEAD", ""): S3Operation(bucket_operations.head_bucket),
    ("DELETE", ""): S3Operation(bucket_operations.delete_bucket),
    ("GET", ""): S3Operation(list_operations.list_objects),
    ("GET", "list-type=2"): S3Operation(list_operations.list_objects_v2),
    ("GET", "location"): S3Operation(bucket_operations.get_bucket_location),
    ("GET", "acl"): S3Operation(bucket_operations.get_acl),
    ("GET", "uploads"): S3Operation(part_operations.list_uploads),
    ("POST", "delete"): S3Operation(object_operations.delete_objects),
    **{
        ("GET", name): S3Operation(partial(bucket_operations.get_configuration, name=name))
        for name in (*bucket_operations.EMPTY_CONFIGURATIONS, *bucket_operations.MISSING_CONFIGURATIONS)
    },
}


def find_operation(
    method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> S3Operation:
    """Return the operation of a request; raise AwsError (501) for one that is not supported."""
    subresource = _subresource(query, bool(key))
    if key and method == "PUT" and "x-amz-copy-source" in headers:
        subresource = f"{subresource} copy".strip()
    if key:
        operation = OBJECT_OPERATIONS.get((method, subresource))
    elif bucket:
        operation = BUCKET_OPERATIONS.get((method, subresource))
    else:
        operation = S3Operation(bucket_operations.list_buckets) if (method, subresource) == ("GET", "") else None
    if operation is None:
        target = "an object" if key else "a bucket" if bucket else "the service"
        name = f"{method} ?{subresource}" if subresource else method
        raise AwsError(
            "NotImplemented",
            f"{name} on {target} is not supported here: this S3 is a folder of this machine, with objects, listings, "
            "copies, tags and uploads in parts. Use AWS's own endpoint for the rest.",
            501,
        )
    return operation


def _subresource(query: Mapping[str, str], is_object: bool) -> str:
    names = sorted(SUBRESOURCES & query.keys())
    if is_object and query.get("versionId") == "null":
        names.remove("versionId")
    if not is_object and query.get("list-type") == "2":
        names.append("list-type=2")
    return " ".join(names)
