"""Uploads in parts through botocore's client, and through boto3's transfer where it is installed."""

from __future__ import annotations

import http.client
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from jupyter_smx.aws.s3 import handler
from jupyter_smx.aws.s3.forms.xml import parse_document
from jupyter_smx.aws.s3.operations.completed_uploads import MAX_ANSWERS, CompletedUploads

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import S3Server

MIB = 1024 * 1024
PLACE = {"Bucket": "data", "Key": "out/model.tar.gz"}


def begin(client: Any, **options: Any) -> dict[str, str]:
    """Begin an upload and return what names it."""
    return {**PLACE, "UploadId": client.create_multipart_upload(**PLACE, **options)["UploadId"]}


def put(client: Any, upload: dict[str, str], number: int, body: bytes, **options: Any) -> dict[str, Any]:
    return {"PartNumber": number, "ETag": client.upload_part(**upload, PartNumber=number, Body=body, **options)["ETag"]}


def complete(client: Any, upload: dict[str, str], parts: list[dict[str, Any]], **options: Any) -> Any:
    return client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **options)


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(*arguments, **options)
    return str(error.value.response["Error"]["Code"])


def test_parts_become_one_object_in_the_order_of_their_numbers(client: Any, s3: S3Server) -> None:
    upload = begin(client, ContentType="text/plain", Metadata={"x": "1"}, ServerSideEncryption="AES256")
    first, last = os.urandom(5 * MIB), os.urandom(7)
    parts = [put(client, upload, 7, last), put(client, upload, 2, b"replaced"), put(client, upload, 2, first)]
    assert list(s3.path("data").rglob("*")) == [], "parts are no objects"
    done = complete(client, upload, [parts[2], parts[0]])
    assert (done["Bucket"], done["Key"], done["ServerSideEncryption"]) == ("data", PLACE["Key"], "AES256")
    found = client.get_object(**PLACE)
    assert found["Body"].read() == first + last
    assert (found["ETag"], found["ContentType"], found["Metadata"]) == (done["ETag"], "text/plain", {"x": "1"})
    assert s3.path("data", PLACE["Key"]).read_bytes() == first + last
    assert refused(client.list_parts, **upload) == "NoSuchUpload"
    assert list((s3.root / ".smx/buckets/data/uploads").iterdir()) == []


def test_a_completion_is_repeated_with_the_same_answer(client: Any) -> None:
    upload = begin(client)
    part = put(client, upload, 1, b"a")
    done = complete(client, upload, [part])
    repeated = complete(client, upload, [part])
    assert [repeated[name] for name in ("ETag", "Key", "Location")] == [
        done[name] for name in ("ETag", "Key", "Location")
    ]
    assert repeated["ETag"] == client.head_object(**PLACE)["ETag"]
    assert refused(complete, client, {**upload, "Key": "other"}, [part]) == "NoSuchUpload"
    assert refused(client.upload_part, **upload, PartNumber=1, Body=b"b") == "NoSuchUpload"


def test_the_answers_of_the_last_completions_are_limited() -> None:
    answers = CompletedUploads()
    for number in range(MAX_ANSWERS + 1):
        answers.add(("folder", str(number), "key"), ({}, {}))
    assert answers.find(("folder", "0", "key")) is None
    assert answers.find(("folder", "1", "key")) == ({}, {})


def test_lists_of_parts_that_do_not_fit_are_refused(client: Any) -> None:
    upload = begin(client)
    parts = [put(client, upload, 1, b"a"), put(client, upload, 2, b"b")]
    assert refused(complete, client, upload, parts) == "EntityTooSmall"
    assert refused(complete, client, upload, parts[::-1]) == "InvalidPartOrder"
    assert refused(complete, client, upload, [{"PartNumber": 3, "ETag": "x"}]) == "InvalidPart"
    assert refused(complete, client, upload, [{"PartNumber": 1, "ETag": "x"}]) == "InvalidPart"
    assert refused(client.head_object, **PLACE) == "404"
    complete(client, upload, parts[1:])
    assert client.get_object(**PLACE)["Body"].read() == b"b"


@pytest.mark.parametrize("number", [0, 10_001])
def test_numbers_of_parts_are_from_1_to_10000(client: Any, number: int) -> None:
    upload = begin(client)
    assert refused(client.upload_part, **upload, PartNumber=number, Body=b"a") == "InvalidArgument"
    client.abort_multipart_upload(**upload)


def test_a_part_with_a_wrong_checksum_is_refused_and_the_old_one_stays(client: Any) -> None:
    upload = begin(client, ChecksumAlgorithm="CRC32")
    part = put(client, upload, 1, b"a")
    assert refused(client.upload_part, **upload, PartNumber=1, Body=b"b", ChecksumCRC32="AAAAAA==") == "BadDigest"
    (listed,) = client.list_parts(**upload)["Parts"]
    assert (listed["ETag"], listed["Size"], listed["ChecksumCRC32"]) == (part["ETag"], 1, "6Le+Qw==")
    assert refused(complete, client, upload, [{**part, "ChecksumCRC32": "AAAAAA=="}]) == "InvalidPart"
    complete(client, upload, [{**part, "ChecksumCRC32": "6Le+Qw=="}])


def test_an_aborted_upload_leaves_nothing(client: Any, s3: S3Server) -> None:
    upload = begin(client)
    put(client, upload, 1, b"a")
    client.abort_multipart_upload(**upload)
    assert refused(client.upload_part, **upload, PartNumber=1, Body=b"a") == "NoSuchUpload"
    assert refused(complete, client, upload, [{"PartNumber": 1, "ETag": "x"}]) == "NoSuchUpload"
    assert refused(client.abort_multipart_upload, **{**upload, "UploadId": "../../objects"}) == "NoSuchUpload"
    assert [path for path in (s3.root / ".smx").rglob("*") if path.is_file()] == []


def test_parts_and_uploads_are_listed_in_pages(client: Any) -> None:
    upload = begin(client)
    for number in (1, 2, 3):
        put(client, upload, number, b"a" * number)
    page = client.list_parts(**upload, MaxParts=2)
    assert ([part["Size"] for part in page["Parts"]], page["IsTruncated"]) == ([1, 2], True)
    rest = client.list_parts(**upload, PartNumberMarker=page["NextPartNumberMarker"])
    assert ([part["Size"] for part in rest["Parts"]], rest["IsTruncated"]) == ([3], False)
    others = [client.create_multipart_upload(Bucket="data", Key=key)["UploadId"] for key in ("a", "a", "z")]
    paginator = client.get_paginator("list_multipart_uploads")
    found = list(paginator.paginate(Bucket="data", PaginationConfig={"PageSize": 1}))
    listed = [entry["UploadId"] for page in found for entry in page["Uploads"]]
    assert (len(found), set(listed), listed[2:]) == (4, {*others, upload["UploadId"]}, [upload["UploadId"], others[2]])
    assert len(client.list_multipart_uploads(Bucket="data", Prefix="a")["Uploads"]) == 2


def test_parts_are_copied_from_ranges_of_objects(client: Any) -> None:
    body = os.urandom(6 * MIB)
    client.put_object(Bucket="data", Key="source", Body=body)
    upload = begin(client)
    spans = [(1, f"bytes=0-{5 * MIB - 1}"), (2, f"bytes={5 * MIB}-{6 * MIB - 1}")]
    options = {**upload, "CopySource": "data/source"}
    parts = [
        {"PartNumber": number, "ETag": client.upload_part_copy(**options, PartNumber=number, CopySourceRange=span)}
        for number, span in spans
    ]
    for part in parts:
        part["ETag"] = part["ETag"]["CopyPartResult"]["ETag"]
    too_far = f"bytes=0-{6 * MIB}"
    assert refused(client.upload_part_copy, **options, PartNumber=3, CopySourceRange=too_far) == "InvalidArgument"
    complete(client, upload, parts)
    assert client.get_object(**PLACE)["Body"].read() == body


def test_an_upload_to_an_impossible_place_is_refused_at_its_beginning(client: Any) -> None:
    client.put_object(Bucket="data", Key="out", Body=b"a file")
    assert refused(client.create_multipart_upload, **PLACE) == "InvalidArgument"
    assert refused(client.create_multipart_upload, Bucket="absent-bucket", Key="a") == "NoSuchBucket"


def test_an_upload_that_must_not_replace_an_object_is_refused(client: Any) -> None:
    upload = begin(client)
    part = put(client, upload, 1, b"new")
    client.put_object(**PLACE, Body=b"old")
    assert refused(complete, client, upload, [part], IfNoneMatch="*") == "PreconditionFailed"
    assert client.get_object(**PLACE)["Body"].read() == b"old"
    complete(client, upload, [part])
    assert client.get_object(**PLACE)["Body"].read() == b"new"


@pytest.fixture
def slow_copy(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the kernel's copy wait for an event, and blanks come without a pause."""
    may_copy = threading.Event()
    copy = os.copy_file_range

    def wait_and_copy(*arguments: Any) -> int:
        assert may_copy.wait(20)
        return copy(*arguments)

    monkeypatch.setattr(os, "copy_file_range", wait_and_copy)
    monkeypatch.setattr(handler, "BLANK_INTERVAL", 0.01)
    return may_copy


def complete_slowly(
    s3: S3Server, upload: dict[str, str], part: dict[str, Any], may_copy: threading.Event, competitor: bytes
) -> bytes:
    """Complete an upload, let the copy begin after the first blanks, and return the whole answer."""
    etag = part["ETag"].replace('"', "&quot;")
    document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    path = f"/data/{PLACE['Key']}?uploadId={upload['UploadId']}"
    headers = s3.signed_headers("POST", path, {"If-None-Match": "*"}, "UNSIGNED-PAYLOAD")
    connection = http.client.HTTPConnection("127.0.0.1", s3.port, timeout=20)
    connection.request("POST", path, f"{document}</CompleteMultipartUpload>", headers)
    response = connection.getresponse()
    first = response.read(60)
    assert (response.status, first[:5], first[-1:]) == (200, b"<?xml", b" ")
    if competitor:
        s3.path("data", "out").mkdir()
        s3.path("data", PLACE["Key"]).write_bytes(competitor)
    may_copy.set()
    answer = first + response.read()
    connection.close()
    return answer


@pytest.mark.parametrize("competitor", [b"", b"another object"])
def test_a_client_reads_blanks_while_a_long_copy_goes_on(
    client: Any, s3: S3Server, slow_copy: threading.Event, competitor: bytes
) -> None:
    upload = begin(client)
    answer = complete_slowly(s3, upload, put(client, upload, 1, b"a"), slow_copy, competitor)
    if competitor:
        assert parse_document(answer, "Error").value("Code") == "PreconditionFailed"
    else:
        etag = client.head_object(**PLACE)["ETag"]
        assert parse_document(answer, "CompleteMultipartUploadResult").value("ETag") == etag
    assert s3.path("data", PLACE["Key"]).read_bytes() == (competitor or b"a")


def test_boto3_uploads_and_downloads_a_file(client: Any, tmp_path: Path) -> None:
    """Case 65: an object of one piece is downloaded in ranges; case 66 has the same calls with a gigabyte."""
    transfer = pytest.importorskip("s3transfer.manager", reason="s3transfer is not installed")
    body = os.urandom(20 * MIB + 3)
    (tmp_path / "up").write_bytes(body)
    client.put_object(Bucket="data", Key="one piece", Body=body)
    with transfer.TransferManager(client) as manager:
        manager.upload(str(tmp_path / "up"), "data", "in parts").result()
        for key in ("one piece", "in parts"):
            manager.download("data", key, str(tmp_path / key)).result()
            assert (tmp_path / key).read_bytes() == body
