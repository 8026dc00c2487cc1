"""Read, write, copy and delete objects."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from jupyter_smx.aws.s3.forms import conditions, ranges, xml
from jupyter_smx.aws.s3.forms.http_dates import format_http_date, format_iso
from jupyter_smx.aws.s3.forms.object_headers import (
    ObjectMetadata,
    checksum_headers,
    encryption_headers,
    read_metadata,
    response_headers,
)
from jupyter_smx.aws.s3.operations.call import ACCOUNT, FileSegment, S3Answer, S3Call, xml_answer
from jupyter_smx.aws.s3.storage import object_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DELETED = 1000


def open_object_file(call: S3Call) -> TemporaryFile:
    """Check the place of an object before its body comes, and return a file for the body."""
    object_files.check_place(call.storage, call.bucket, call.key, call.headers)
    return TemporaryFile(call.storage)


def put_object(call: S3Call) -> S3Answer:
    """Replace an object by the body."""
    metadata = read_metadata(call.headers)
    if call.body is not None:
        metadata.checksums = call.body.checksums
    new = object_files.put_object(call.storage, call.file, (call.bucket, call.key), metadata, call.headers)
    return S3Answer(headers={"etag": new.etag, **encryption_headers(metadata), **checksum_headers(metadata)})


def head_object(call: S3Call) -> S3Answer:
    """Answer with the headers of an object."""
    found = object_files.find_object(call.storage, call.bucket, call.key)
    return _read(call, found)


def get_object(call: S3Call) -> S3Answer:
    """Answer with an object or a range of it."""
    found = object_files.find_object(call.storage, call.bucket, call.key)
    answer = _read(call, found)
    if answer.status in {200, 206} and not call.key.endswith("/"):
        length = int(answer.headers["content-length"])
        start = int(answer.headers.get("content-range", "bytes 0-")[len("bytes ") :].partition("-")[0])
        answer.segment = FileSegment(object_files.open_object(found, call.key), start, length)
    return answer


def _read(call: S3Call, found: object_files.ObjectFile) -> S3Answer:
    """Return status and headers of a read, of which a HEAD answers the same as a GET."""
    common = {"etag": found.etag, "last-modified": format_http_date(found.modified), "accept-ranges": "bytes"}
    try:
        conditions.check_read(call.headers, found.etag, found.modified)
    except conditions.NotModifiedError:
        return S3Answer(304, common)
    if call.query.get("partNumber", "1") != "1":
        message = "Objects here have one part: once an upload in parts is complete, its parts are not known any more."
        raise AwsError("InvalidPartNumber", message, 416)
    headers = {**response_headers(found.metadata, call.query), **common}
    part = ranges.parse_range(call.headers.get("range"), found.size)
    if part is not None:
        # The checksum of the whole would make clients refuse the range.
        headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{found.size}"
        return S3Answer(206, {**headers, "content-length": str(part.length)})
    if call.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
        headers.update(checksum_headers(found.metadata))
    return S3Answer(200, {**headers, "content-length": str(found.size)})


def delete_object(call: S3Call) -> S3Answer:
    """Remove an object; it is no error where there is none."""
    call.storage.existing_bucket(call.bucket)
    object_files.delete_object(call.storage, call.bucket, call.key)
    return S3Answer(204)


def delete_objects(call: S3Call) -> S3Answer:
    """Remove the objects of a list, and answer for each of them."""
    call.storage.existing_bucket(call.bucket)
    request = xml.parse_document(call.document, "Delete")
    keys = [element.value("Key") or "" for element in request.all("Object")]
    if not 0 < len(keys) <= MAX_DELETED:
        raise AwsError("MalformedXML", f"The request has {len(keys)} keys; from 1 to {MAX_DELETED} are allowed.")
    deleted, errors = [], []
    for key in keys:
        if (error := _delete_error(call, key)) is None:
            deleted.append({"Key": key})
        else:
            errors.append({"Key": key, "Code": error.code, "Message": error.message})
    is_quiet = request.value("Quiet") == "true"
    return xml_answer("DeleteResult", {"Deleted": [] if is_quiet else deleted, "Error": errors})


def _delete_error(call: S3Call, key: str) -> AwsError | None:
    try:
        object_files.delete_object(call.storage, call.bucket, key)
    except AwsError as error:
        return error
    return None


def find_source(call: S3Call) -> tuple[object_files.ObjectFile, str]:
    """Return the source of a copy and its key; raise AwsError where there is none or a condition does not hold."""
    if call.headers.get("x-amz-source-expected-bucket-owner", ACCOUNT) != ACCOUNT:
        raise AwsError("AccessDenied", f"The source's bucket belongs to the account {ACCOUNT}.", 403)
    path = call.headers["x-amz-copy-source"].partition("?versionId=")[0]
    bucket, _, key = unquote(path).removeprefix("/").partition("/")
    if not bucket or not key:
        raise AwsError("InvalidArgument", f"x-amz-copy-source is {path!r}; it must be <bucket>/<key>.")
    found = object_files.find_object(call.storage, bucket, key)
    conditions.check_copy(call.headers, found.etag, found.modified)
    return found, f"{bucket}/{key}"


def copy_to_file(found: object_files.ObjectFile, file: TemporaryFile, part: ranges.ByteRange, key: str) -> None:
    """Append bytes of an object to a file, by the kernel."""
    if key.endswith("/"):
        return
    descriptor = object_files.open_object(found, key)
    source = FileSegment(descriptor, part.start, part.length)
    try:
        with translated():
            file.append_range(descriptor, part.start, part.length)
    finally:
        source.close()


def copy_object(call: S3Call) -> S3Answer:
    """Make an object a copy of another one, with its metadata or that of the request."""
    object_files.check_place(call.storage, call.bucket, call.key, call.headers)
    found, source = find_source(call)
    metadata = _copied_metadata(call.headers, found.metadata)
    is_replaced = call.headers.get("x-amz-metadata-directive") == "REPLACE"
    if source == f"{call.bucket}/{call.key}" and not is_replaced:
        message = "This copy request is illegal because it is trying to copy an object to itself without changing it."
        raise AwsError("InvalidRequest", message)
    with translated():
        file = TemporaryFile(call.storage)
    try:
        copy_to_file(found, file, ranges.ByteRange(0, found.size), source)
        new = object_files.put_object(call.storage, file, (call.bucket, call.key), metadata, call.headers)
    finally:
        file.discard()
    sums = {f"Checksum{name.upper()}": value for name, value in metadata.checksums.items()}
    content = {"LastModified": format_iso(new.modified), "ETag": new.etag, **sums}
    return xml_answer("CopyObjectResult", content, encryption_headers(metadata))


def _copied_metadata(headers: Mapping[str, str], source: ObjectMetadata) -> ObjectMetadata:
    requested = read_metadata(headers)
    is_replaced = headers.get("x-amz-metadata-directive") == "REPLACE"
    kept = requested.headers if is_replaced else {**source.headers, **encryption_headers(requested)}
    tags = requested.tags if headers.get("x-amz-tagging-directive") == "REPLACE" else source.tags
    return ObjectMetadata(kept, source.checksums, tags)


def get_tags(call: S3Call) -> S3Answer:
    """Answer with the tags of an object."""
    found = object_files.find_object(call.storage, call.bucket, call.key)
    tags = [{"Key": name, "Value": value} for name, value in found.metadata.tags.items()]
    return xml_answer("Tagging", {"TagSet": {"Tag": tags}})


def put_tags(call: S3Call) -> S3Answer:
    """Replace the tags of an object."""
    found = object_files.find_object(call.storage, call.bucket, call.key)
    tag_sets = xml.parse_document(call.document, "Tagging").all("TagSet")
    tags = [tag for tag_set in tag_sets for tag in tag_set.all("Tag")]
    found.metadata.tags = {tag.value("Key") or "": tag.value("Value") or "" for tag in tags}
    object_files.set_metadata(call.storage, call.bucket, call.key, found)
    return S3Answer()


def delete_tags(call: S3Call) -> S3Answer:
    """Remove the tags of an object."""
    found = object_files.find_object(call.storage, call.bucket, call.key)
    found.metadata.tags = {}
    object_files.set_metadata(call.storage, call.bucket, call.key, found)
    return S3Answer(204)
