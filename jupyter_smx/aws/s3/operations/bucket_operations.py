"""Make, list and remove buckets, and answer for the configuration that none of them has."""

from __future__ import annotations

import contextlib
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.s3.forms import xml
from jupyter_smx.aws.s3.forms.http_dates import format_iso
from jupyter_smx.aws.s3.forms.object_keys import is_bucket_name
from jupyter_smx.aws.s3.operations.call import OWNER, S3Answer, S3Call, xml_answer
from jupyter_smx.aws.s3.storage import metadata_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.key_walk import KeyWalk
from jupyter_smx.aws.s3.storage.object_files import remove_empty_folders
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from jupyter_smx.aws.s3.storage.layout import S3Storage

DEFAULT_REGION = "us-east-1"
RECORD = "bucket.json"

EMPTY_CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "versioning": ("VersioningConfiguration", {}),
    "logging": ("BucketLoggingStatus", {}),
    "notification": ("NotificationConfiguration", {}),
    "accelerate": ("AccelerateConfiguration", {}),
    "requestPayment": ("RequestPaymentConfiguration", {"Payer": "BucketOwner"}),
}
"""Parameters of the query whose answer is a configuration without content."""
MISSING_CONFIGURATIONS = {
    "cors": "NoSuchCORSConfiguration",
    "encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "lifecycle": "NoSuchLifecycleConfiguration",
    "object-lock": "ObjectLockConfigurationNotFoundError",
    "ownershipControls": "OwnershipControlsNotFoundError",
    "policy": "NoSuchBucketPolicy",
    "publicAccessBlock": "NoSuchPublicAccessBlockConfiguration",
    "replication": "ReplicationConfigurationNotFoundError",
    "tagging": "NoSuchTagSet",
    "website": "NoSuchWebsiteConfiguration",
}
"""Parameters of the query whose answer is an error of this code."""


def list_buckets(call: S3Call) -> S3Answer:
    """List the folders of the root whose names are those of buckets."""
    prefix = call.query.get("prefix", "")
    names = sorted(name for name in _folders(call.storage) if name.startswith(prefix))
    buckets = [{"Name": name, "CreationDate": format_iso(_created(call.storage, name))} for name in names]
    return xml_answer("ListAllMyBucketsResult", {"Owner": OWNER, "Buckets": {"Bucket": buckets}})


def _folders(storage: S3Storage) -> list[str]:
    with translated():
        os.makedirs(storage.root, exist_ok=True)
        with os.scandir(storage.root) as entries:
            return [
                entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and is_bucket_name(entry.name)
            ]


def _created(storage: S3Storage, bucket: str) -> float:
    """Return when a bucket was made; that of a folder which a person made is its last change."""
    record = metadata_files.read_json(f"{storage.state_path(bucket)}/{RECORD}")
    return float(record.get("created") or os.stat(f"{storage.root}/{bucket}").st_mtime)


def create_bucket(call: S3Call) -> S3Answer:
    """Make a bucket; making one again is no error, since its owner can only be this user."""
    path = call.storage.bucket_path(call.bucket)
    region = call.region
    if call.document:
        region = xml.parse_document(call.document, "CreateBucketConfiguration").value("LocationConstraint") or region
    with translated(), contextlib.suppress(FileExistsError):
        os.makedirs(path)
        record = {"created": call.storage.clock(), "region": region}
        metadata_files.write_json(f"{call.storage.state_path(call.bucket)}/{RECORD}", record, call.storage.new_id())
    call.storage.existing_bucket(call.bucket)
    return S3Answer(headers={"location": f"/{call.bucket}"})


def head_bucket(call: S3Call) -> S3Answer:
    """Answer whether a bucket exists."""
    call.storage.existing_bucket(call.bucket)
    return S3Answer(headers={"x-amz-bucket-region": _region(call)})


def _region(call: S3Call) -> str:
    record = metadata_files.read_json(f"{call.storage.state_path(call.bucket)}/{RECORD}")
    return str(record.get("region") or call.region)


def get_bucket_location(call: S3Call) -> S3Answer:
    """Answer with the region of a bucket; empty stands for the first region, as in S3."""
    call.storage.existing_bucket(call.bucket)
    region = _region(call)
    return xml_answer("LocationConstraint", "" if region == DEFAULT_REGION else region)


def delete_bucket(call: S3Call) -> S3Answer:
    """Remove a bucket without objects; files are never removed with it."""
    path = call.storage.existing_bucket(call.bucket)
    is_marker = partial(metadata_files.has_marker, call.storage, call.bucket)
    with translated():
        if any(True for _ in KeyWalk(path, is_marker)):
            raise AwsError("BucketNotEmpty", "The bucket you tried to delete is not empty.", 409)
        if not remove_empty_folders(path):
            message = f"The folder {path} has files that are no objects, as links. Remove them, then the bucket."
            raise AwsError("BucketNotEmpty", message, 409)
    shutil.rmtree(call.storage.state_path(call.bucket), ignore_errors=True)
    return S3Answer(204)


def get_configuration(call: S3Call, name: str) -> S3Answer:
    """Answer for a configuration that buckets here do not have."""
    call.storage.existing_bucket(call.bucket)
    if name in EMPTY_CONFIGURATIONS:
        return xml_answer(*EMPTY_CONFIGURATIONS[name])
    code = MISSING_CONFIGURATIONS[name]
    raise AwsError(code, f"The bucket {call.bucket} has no such configuration: {name}.", 404)


def get_acl(call: S3Call) -> S3Answer:
    """Answer that the owner may do everything."""
    call.storage.existing_bucket(call.bucket)
    # The attribute of a type has no place in the writer, and no client reads it from here.
    grant = {"Grantee": OWNER, "Permission": "FULL_CONTROL"}
    return xml_answer("AccessControlPolicy", {"Owner": OWNER, "AccessControlList": {"Grant": grant}})
