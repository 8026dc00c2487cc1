"""Upload objects in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.s3.forms import ranges, xml
from jupyter_smx.aws.s3.forms.checksums import MEMBERS
from jupyter_smx.aws.s3.forms.http_dates import format_iso
from jupyter_smx.aws.s3.forms.object_headers import ObjectMetadata, encryption_headers, read_metadata
from jupyter_smx.aws.s3.operations.call import OWNER, S3Answer, S3Call, is_number, xml_answer
from jupyter_smx.aws.s3.operations.completed_uploads import CompletedUploads
from jupyter_smx.aws.s3.operations.object_operations import copy_to_file, find_source
from jupyter_smx.aws.s3.storage import object_files
from jupyter_smx.aws.s3.storage.disk_errors import translated
from jupyter_smx.aws.s3.storage.part_store import PartStore, UploadPart
from jupyter_smx.aws.s3.storage.temporary_file import TemporaryFile
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.aws.s3.storage.part_slot import PartSlot

MAX_PART = 10_000
MIN_SIZE = 5 * 1024 * 1024
"""Bytes of each part but the last."""
_completed = CompletedUploads()


def _store(call: S3Call) -> PartStore:
    call.storage.existing_bucket(call.bucket)
    return PartStore(call.storage, call.bucket)


def create_upload(call: S3Call) -> S3Answer:
    """Begin an upload; the place is checked now, so that no client sends a gigabyte for an error."""
    object_files.check_place(call.storage, call.bucket, call.key, {})
    metadata = read_metadata(call.headers)
    record = {"key": call.key, "initiated": call.storage.clock(), "metadata": metadata.to_json()}
    algorithm = call.headers.get("x-amz-checksum-algorithm")
    kind = call.headers.get("x-amz-checksum-type")
    echoed = {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": kind}
    headers = {**encryption_headers(metadata), **{name: value for name, value in echoed.items() if value}}
    upload_id = _store(call).create({**record, "algorithm": algorithm, "checksum_type": kind})
    content = {"Bucket": call.bucket, "Key": call.key, "UploadId": upload_id}
    return xml_answer("InitiateMultipartUploadResult", content, headers)


def part_number(call: S3Call) -> int:
    """Return the number of the part that a request names; raise AwsError where S3 has no such number."""
    text = call.query.get("partNumber", "")
    if not (is_number(text) and 1 <= int(text) <= MAX_PART):
        message = f"Part number is {text!r}; it must be an integer between 1 and {MAX_PART}, inclusive."
        raise AwsError("InvalidArgument", message)
    return int(text)


def open_part(call: S3Call) -> TemporaryFile | PartSlot:
    """Return the file for a part; raise AwsError where a request names no upload of its key or no number."""
    number, store = part_number(call), _store(call)
    store.record(call.query["uploadId"], call.key)
    length = call.headers.get("x-amz-decoded-content-length") or call.headers.get("content-length", "")
    return store.open_part(call.query["uploadId"], number, int(length) if is_number(length) else None)


def upload_part(call: S3Call) -> S3Answer:
    """Store the body as a part."""
    number = part_number(call)
    store = _store(call)
    record = store.record(call.query["uploadId"], call.key)
    sums = {} if call.body is None else call.body.checksums
    if call.body is None or call.body.file is None:
        raise AwsError("MissingRequestBodyError", "The request has no body.")
    part = store.put(call.query["uploadId"], number, call.body.file, sums)
    checksums = {f"x-amz-checksum-{name}": value for name, value in sums.items()}
    encryption = encryption_headers(_metadata(record))
    return S3Answer(headers={"etag": part.etag, **encryption, **checksums})


def upload_part_copy(call: S3Call) -> S3Answer:
    """Store bytes of another object as a part."""
    number = part_number(call)
    store = _store(call)
    store.record(call.query["uploadId"], call.key)
    found, source = find_source(call)
    span = ranges.parse_copy_range(call.headers.get("x-amz-copy-source-range"), found.size)
    with translated():
        file = TemporaryFile(call.storage)
    try:
        copy_to_file(found, file, span, source)
        part = store.put(call.query["uploadId"], number, file, {})
    finally:
        file.discard()
    return xml_answer("CopyPartResult", {"LastModified": format_iso(part.modified), "ETag": part.etag})


def complete_upload(call: S3Call) -> S3Answer:
    """Make the parts that a request lists one object."""
    store = _store(call)
    upload_id = call.query["uploadId"]
    place = (store.folder, upload_id, call.key)
    if (answer := _completed.find(place)) is not None:
        return xml_answer("CompleteMultipartUploadResult", *answer)
    record = store.record(upload_id, call.key)
    requested = list(xml.parse_document(call.document, "CompleteMultipartUpload").all("Part"))
    parts = choose_parts(requested, store.parts(upload_id))
    object_files.check_place(call.storage, call.bucket, call.key, call.headers)
    with store.joined(upload_id, parts) as file:
        new = object_files.put_object(call.storage, file, (call.bucket, call.key), _metadata(record), call.headers)
    location = f"http://{call.headers.get('host', '')}/{call.bucket}/{call.key}"
    content = {"Location": location, "Bucket": call.bucket, "Key": call.key, "ETag": new.etag}
    headers = encryption_headers(new.metadata)
    _completed.add(place, (content, headers))
    store.remove(upload_id)
    return xml_answer("CompleteMultipartUploadResult", content, headers)


def _metadata(record: dict[str, Any]) -> ObjectMetadata:
    return ObjectMetadata(**record["metadata"])


def choose_parts(requested: Sequence[xml.Element], stored: dict[int, UploadPart]) -> list[UploadPart]:
    """Return the parts of a list in its order; raise AwsError where one is missing, changed, too small or misplaced."""
    if not requested:
        raise AwsError("MalformedXML", "The list of parts is empty.")
    parts: list[UploadPart] = []
    for element in requested:
        part = _stored_part(element, stored)
        if parts and part.number <= parts[-1].number:
            raise AwsError("InvalidPartOrder", "The list of parts was not in ascending order.")
        parts.append(part)
    if small := [part.number for part in parts[:-1] if part.size < MIN_SIZE]:
        message = f"Your proposed upload is smaller than the minimum allowed size: part {small[0]} has less than 5 MiB."
        raise AwsError("EntityTooSmall", message)
    return parts


def _stored_part(element: xml.Element, stored: dict[int, UploadPart]) -> UploadPart:
    number, etag = element.value("PartNumber") or "", element.value("ETag") or ""
    part = stored.get(int(number)) if is_number(number) else None
    if part is None or part.etag.strip('"') != etag.strip('"'):
        message = f"One or more of the specified parts could not be found: part {number!r} with the ETag {etag!r}."
        raise AwsError("InvalidPart", message)
    for name, value in part.checksums.items():
        if element.value(MEMBERS[name]) not in {None, value}:
            raise AwsError("InvalidPart", f"The checksum {name.upper()} of part {number} differs from the one stored.")
    return part


def abort_upload(call: S3Call) -> S3Answer:
    """Remove an upload with its parts."""
    store = _store(call)
    store.record(call.query["uploadId"], call.key)
    store.remove(call.query["uploadId"])
    return S3Answer(204)


def list_parts(call: S3Call) -> S3Answer:
    """Answer with a page of the parts of an upload."""
    store = _store(call)
    store.record(call.query["uploadId"], call.key)
    after = call.number("part-number-marker", 0, MAX_PART)
    limit = call.number("max-parts", 1000, 1000)
    found = [part for number, part in store.parts(call.query["uploadId"]).items() if number > after]
    page = found[:limit]
    is_truncated = len(found) > len(page)
    content = {
        "Bucket": call.bucket,
        "Key": call.key,
        "UploadId": call.query["uploadId"],
        "PartNumberMarker": after,
        "NextPartNumberMarker": page[-1].number if page else 0,
        "MaxParts": limit,
        "IsTruncated": is_truncated,
        "Part": [_format_part(part) for part in page],
        "Initiator": OWNER,
        "Owner": OWNER,
        "StorageClass": "STANDARD",
    }
    return xml_answer("ListPartsResult", content)


def _format_part(part: UploadPart) -> dict[str, Any]:
    sums = {MEMBERS[name]: value for name, value in part.checksums.items()}
    modified = format_iso(part.modified)
    return {"PartNumber": part.number, "LastModified": modified, "ETag": part.etag, "Size": part.size, **sums}


def list_uploads(call: S3Call) -> S3Answer:
    """Answer with a page of the uploads of a bucket that are not complete."""
    prefix = call.query.get("prefix", "")
    marker = (call.query.get("key-marker", ""), call.query.get("upload-id-marker", "\U0010ffff"))
    found = [
        (record["key"], upload_id, record["initiated"])
        for upload_id, record in _store(call).uploads()
        if record["key"].startswith(prefix)
    ]
    later = [upload for upload in sorted(found) if upload[:2] > marker]
    page = later[: call.number("max-uploads", 1000, 1000)]
    is_truncated = len(later) > len(page) > 0
    content = {
        "Bucket": call.bucket,
        "KeyMarker": call.query.get("key-marker", ""),
        "UploadIdMarker": call.query.get("upload-id-marker", ""),
        "NextKeyMarker": page[-1][0] if is_truncated else None,
        "NextUploadIdMarker": page[-1][1] if is_truncated else None,
        "Prefix": prefix,
        "MaxUploads": call.number("max-uploads", 1000, 1000),
        "IsTruncated": is_truncated,
        "Upload": [_format_upload(*upload) for upload in page],
    }
    return xml_answer("ListMultipartUploadsResult", content)


def _format_upload(key: str, upload_id: str, initiated: float) -> dict[str, Any]:
    people = {"Initiator": OWNER, "Owner": OWNER}
    return {"Key": key, "UploadId": upload_id, **people, "StorageClass": "STANDARD", "Initiated": format_iso(initiated)}
