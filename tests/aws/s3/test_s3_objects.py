"""Objects through botocore's client: bytes, ranges, conditions, metadata, checksums, copies, tags and odd keys."""

from __future__ import annotations

import base64
import hashlib
import os
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from jupyter_smx.aws.s3 import handler

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import S3Server

ODD_KEYS = ["a b", "a+b", "50%", "%41", "größe/ü.txt", "a/b c/d", "x=1&y=2", "a?b", "a#b", "~a", "new\nline", "日本/語"]
BAD_KEYS = ["../x", "a/../../x", "..", "a//b", "/a", "a/./b", "a/" + "n" * 256]


def code(error: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    response = error.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def read(client: Any, key: str, **options: Any) -> bytes:
    return bytes(client.get_object(Bucket="data", Key=key, **options)["Body"].read())


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_object_is_a_file_at_the_path_of_its_key(client: Any, s3: S3Server, key: str) -> None:
    client.put_object(Bucket="data", Key=key, Body=b"hello")
    assert s3.path("data", key).read_bytes() == b"hello"
    assert read(client, key) == b"hello"
    assert [found["Key"] for found in client.list_objects_v2(Bucket="data")["Contents"]] == [key]
    client.delete_object(Bucket="data", Key=key)
    assert not s3.path("data", key).exists()


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_is_no_path_below_the_bucket_is_refused(client: Any, s3: S3Server, key: str) -> None:
    (s3.root / "x").write_bytes(b"secret")
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key=key, Body=b"hello")
    assert code(error) == ("InvalidArgument", 400)
    with pytest.raises(ClientError) as error:
        read(client, key)
    assert code(error) == ("NoSuchKey", 404)
    client.delete_object(Bucket="data", Key=key)
    assert (s3.root / "x").read_bytes() == b"secret"
    assert list(s3.path("data").rglob("*")) == []


def test_a_file_that_a_job_wrote_is_an_object(client: Any, s3: S3Server) -> None:
    s3.path("data", "out").mkdir()
    s3.path("data", "out/model.bin").write_bytes(b"weights")
    head = client.head_object(Bucket="data", Key="out/model.bin")
    assert (head["ContentLength"], head["ContentType"]) == (7, "binary/octet-stream")
    assert read(client, "out/model.bin", IfMatch=head["ETag"]) == b"weights"
    (listed,) = client.list_objects_v2(Bucket="data")["Contents"]
    assert (listed["ETag"], listed["LastModified"]) == (head["ETag"], head["LastModified"])


def test_metadata_of_an_object_is_gone_when_a_job_writes_its_file(client: Any, s3: S3Server) -> None:
    put = client.put_object(Bucket="data", Key="a", Body=b"1", ContentType="text/plain", Metadata={"by": "me"})
    head = client.head_object(Bucket="data", Key="a", ChecksumMode="ENABLED")
    assert (head["ContentType"], head["Metadata"], head["ETag"]) == ("text/plain", {"by": "me"}, put["ETag"])
    assert head["ChecksumCRC32"] == put["ChecksumCRC32"]
    s3.path("data", "a").write_bytes(b"other")
    head = client.head_object(Bucket="data", Key="a", ChecksumMode="ENABLED")
    assert (head["ContentType"], head["Metadata"]) == ("binary/octet-stream", {})
    assert "ChecksumCRC32" not in head
    assert head["ETag"] != put["ETag"]


def test_headers_of_an_object_come_back(client: Any) -> None:
    headers = {"CacheControl": "no-cache", "ContentEncoding": "gzip", "ContentLanguage": "de", "ContentType": "a/b"}
    client.put_object(Bucket="data", Key="a", Body=b"1", ServerSideEncryption="aws:kms", SSEKMSKeyId="k", **headers)
    head = client.head_object(Bucket="data", Key="a")
    assert {name: head[name] for name in headers} == headers
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "k")
    replaced = client.get_object(Bucket="data", Key="a", ResponseContentType="x/y")
    assert replaced["ContentType"] == "x/y"


def test_a_write_echoes_the_encryption_that_sagemaker_asks_for(client: Any) -> None:
    assert (
        client.put_object(Bucket="data", Key="a", ServerSideEncryption="aws:kms")["ServerSideEncryption"] == "aws:kms"
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("bytes=0-0", b"0"), ("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-3", b"789"), ("bytes=8-99", b"89")],
)
def test_a_range_is_answered_without_the_checksum_of_the_whole(client: Any, asked: str, expected: bytes) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"0123456789")
    part = client.get_object(Bucket="data", Key="a", Range=asked)
    assert part["Body"].read() == expected  # botocore compares checksums that come with it
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert part["ContentRange"].endswith("/10")
    assert "ChecksumCRC32" not in part
    assert "ChecksumCRC32" in client.get_object(Bucket="data", Key="a")


def test_a_range_behind_the_end_is_refused(client: Any) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"01")
    with pytest.raises(ClientError) as error:
        read(client, "a", Range="bytes=2-5")
    assert code(error) == ("InvalidRange", 416)


def test_conditions_of_reads_hold(client: Any) -> None:
    etag = client.put_object(Bucket="data", Key="a", Body=b"1")["ETag"]
    now = datetime.now(timezone.utc)
    assert read(client, "a", IfMatch=etag, IfModifiedSince=now - timedelta(days=1)) == b"1"
    for condition, status in [
        ({"IfMatch": '"x"'}, 412),
        ({"IfNoneMatch": etag}, 304),
        ({"IfModifiedSince": now + timedelta(hours=1)}, 304),
        ({"IfUnmodifiedSince": now - timedelta(days=1)}, 412),
    ]:
        with pytest.raises(ClientError) as error:
            read(client, "a", **condition)
        assert code(error)[1] == status, condition


def test_an_object_is_made_only_once_where_the_client_asks_so(client: Any) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="a", Body=b"2", IfNoneMatch="*")
    assert code(error) == ("PreconditionFailed", 412)
    assert read(client, "a") == b"1"


@pytest.mark.parametrize("checksum", ["CRC32", "SHA1", "SHA256", "CRC32C", "CRC64NVME"])
def test_a_wrong_checksum_is_refused_and_the_object_stays(client: Any, checksum: str) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"old")
    sizes = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8, "SHA1": 20, "SHA256": 32}
    wrong = base64.b64encode(b"\1" * sizes[checksum]).decode()
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="a", Body=b"new", **{f"Checksum{checksum}": wrong})
    assert code(error) == ("BadDigest", 400)
    assert read(client, "a") == b"old"


def test_a_wrong_md5_is_refused(client: Any) -> None:
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="a", Body=b"new", ContentMD5="MTIzNDU2Nzg5MDEyMzQ1Ng==")
    assert code(error) == ("BadDigest", 400)


def test_a_head_of_nothing_is_404_without_a_body(client: Any, s3: S3Server) -> None:
    for bucket in ("data", "absent"):
        with pytest.raises(ClientError) as error:
            client.head_object(Bucket=bucket, Key="a")
        assert code(error) == ("404", 404)
        assert error.value.response["Error"]["Message"] == "Not Found"
    headers = s3.signed_headers("GET", "/data/a", {}, "UNSIGNED-PAYLOAD")
    status, body = s3.send("GET", "/data/a", headers)
    assert (status, b"<Code>NoSuchKey</Code>" in body, b"<RequestId>" in body) == (404, True, True)


def test_a_foreign_owner_is_refused(client: Any) -> None:
    assert client.head_bucket(Bucket="data", ExpectedBucketOwner="0" * 12)
    for call in (client.head_bucket, client.list_objects_v2):
        with pytest.raises(ClientError) as error:
            call(Bucket="data", ExpectedBucketOwner="1" * 12)
        assert code(error)[1] == 403


def test_a_file_and_a_folder_of_one_name_are_refused_with_a_sentence(client: Any) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"1")
    client.put_object(Bucket="data", Key="f/x", Body=b"1")
    for key in ("a/b", "a/b/c", "a/", "f"):
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket="data", Key=key)
        assert code(error) == ("InvalidArgument", 400)
        assert "a file system does not" in error.value.response["Error"]["Message"]
    assert read(client, "a") == b"1"


def test_a_folder_without_files_gives_its_name_to_an_object(client: Any, s3: S3Server) -> None:
    client.put_object(Bucket="data", Key="f/g/x", Body=b"1")
    client.delete_object(Bucket="data", Key="f/g/x")
    assert s3.path("data", "f/g").is_dir(), "it may be the checkpoint folder of a running job"
    client.put_object(Bucket="data", Key="f", Body=b"2")
    assert read(client, "f") == b"2"


def test_a_key_with_a_slash_at_its_end_is_a_folder(client: Any, s3: S3Server) -> None:
    client.put_object(Bucket="data", Key="f/")
    s3.path("data", "made-by-a-job").mkdir()
    assert s3.path("data", "f").is_dir()
    assert client.head_object(Bucket="data", Key="f/")["ContentLength"] == 0
    assert read(client, "f/") == b""
    client.put_object(Bucket="data", Key="f/a", Body=b"1")
    assert [found["Key"] for found in client.list_objects_v2(Bucket="data")["Contents"]] == ["f/", "f/a"]
    client.delete_object(Bucket="data", Key="f/")
    assert [found["Key"] for found in client.list_objects_v2(Bucket="data")["Contents"]] == ["f/a"]
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="g/", Body=b"1")
    assert code(error) == ("InvalidArgument", 400)


def test_links_out_of_the_bucket_are_not_followed(client: Any, s3: S3Server) -> None:
    outside = s3.root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    s3.path("data", "folder").symlink_to(outside)
    s3.path("data", "file").symlink_to(outside / "secret")
    s3.path("data", "real").write_bytes(b"1")
    s3.path("data", "inside").symlink_to(s3.path("data", "real"))
    for key in ("folder/secret", "file"):
        with pytest.raises(ClientError):
            read(client, key)
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="data", Key="folder/new", Body=b"1")
    assert code(error) == ("AccessDenied", 403)
    client.put_object(Bucket="data", Key="file", Body=b"mine")
    assert (outside / "secret").read_bytes() == b"secret"
    assert read(client, "inside") == b"1"
    assert [found["Key"] for found in client.list_objects_v2(Bucket="data")["Contents"]] == ["file", "inside", "real"]
    assert "Contents" not in client.list_objects_v2(Bucket="data", Prefix="folder/")
    (s3.root / "linked").symlink_to(outside)
    with pytest.raises(ClientError):
        client.list_objects_v2(Bucket="linked")


def test_copies_have_bytes_and_metadata_of_their_source(client: Any) -> None:
    client.put_object(Bucket="data", Key="a b/ü", Body=b"hello", ContentType="text/plain", Metadata={"x": "1"})
    copied = client.copy_object(Bucket="data", Key="c", CopySource={"Bucket": "data", "Key": "a b/ü"})
    assert client.head_object(Bucket="data", Key="c")["ETag"] == copied["CopyObjectResult"]["ETag"]
    client.copy_object(
        Bucket="data", Key="d", CopySource="data/c", MetadataDirective="REPLACE", Metadata={"y": "2"}, ContentType="a/b"
    )
    for key, kind, metadata in [("c", "text/plain", {"x": "1"}), ("d", "a/b", {"y": "2"})]:
        found = client.get_object(Bucket="data", Key=key)
        assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (b"hello", kind, metadata)
    with pytest.raises(ClientError) as error:
        client.copy_object(Bucket="data", Key="c", CopySource="data/c")
    assert code(error) == ("InvalidRequest", 400)
    with pytest.raises(ClientError) as error:
        client.copy_object(Bucket="data", Key="c", CopySource="data/absent")
    assert code(error) == ("NoSuchKey", 404)
    with pytest.raises(ClientError) as error:
        client.copy_object(Bucket="data", Key="e", CopySource="data/c", CopySourceIfMatch='"x"')
    assert code(error) == ("PreconditionFailed", 412)


def test_many_objects_are_removed_by_one_call(client: Any) -> None:
    for key in ("a", "b&<c>", "ü"):
        client.put_object(Bucket="data", Key=key)
    objects = [{"Key": key} for key in ("a", "b&<c>", "ü", "absent", "../x")]
    answer = client.delete_objects(Bucket="data", Delete={"Objects": objects})
    assert [deleted["Key"] for deleted in answer["Deleted"]] == [found["Key"] for found in objects]
    assert "Contents" not in client.list_objects_v2(Bucket="data")
    quiet = client.delete_objects(Bucket="data", Delete={"Objects": objects, "Quiet": True})
    assert "Deleted" not in quiet


def test_tags_are_stored_with_an_object(client: Any) -> None:
    client.put_object(Bucket="data", Key="a", Tagging="x=1&y=%26")
    tags = [{"Key": "x", "Value": "1"}, {"Key": "y", "Value": "&"}]
    assert client.get_object_tagging(Bucket="data", Key="a")["TagSet"] == tags
    client.put_object_tagging(Bucket="data", Key="a", Tagging={"TagSet": tags[:1]})
    assert client.get_object_tagging(Bucket="data", Key="a")["TagSet"] == tags[:1]
    client.delete_object_tagging(Bucket="data", Key="a")
    assert client.get_object_tagging(Bucket="data", Key="a")["TagSet"] == []


def test_an_unsupported_operation_says_so(client: Any) -> None:
    client.put_object(Bucket="data", Key="a")
    with pytest.raises(ClientError) as error:
        client.get_object_attributes(Bucket="data", Key="a", ObjectAttributes=["ETag"])
    assert code(error) == ("NotImplemented", 501)
    assert "folder of this machine" in error.value.response["Error"]["Message"]


def test_a_large_object_comes_back(client: Any, s3: S3Server) -> None:
    body = os.urandom(20 * 1024 * 1024 + 7)
    client.put_object(Bucket="data", Key="a", Body=body)
    assert hashlib.sha256(read(client, "a")).digest() == hashlib.sha256(body).digest()
    assert s3.path("data", "a").stat().st_size == len(body)


def test_a_presigned_url_works_until_its_time_is_over(s3: S3Server) -> None:
    client = s3.client(signature_version="s3v4")
    client.put_object(Bucket="data", Key="a b", Body=b"hello")
    url = client.generate_presigned_url("get_object", {"Bucket": "data", "Key": "a b"}, ExpiresIn=60)
    assert s3.send("GET", url.removeprefix(s3.url), {}) == (200, b"hello")
    s3.skew[0] = 61
    assert s3.send("GET", url.removeprefix(s3.url), {})[0] == 403


def test_the_log_of_a_failure_has_no_signature(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = s3.client(signature_version="s3v4")
    url = client.generate_presigned_url("get_object", {"Bucket": "data", "Key": "a"})

    def fail(*_: object) -> None:
        raise RuntimeError(url)

    monkeypatch.setattr(handler, "find_operation", fail)
    status, answer = s3.send("GET", url.removeprefix(s3.url), {})
    assert (status, b"InternalError" in answer) == (500, True)
    assert "GET /data/a failed" in caplog.text
    assert "RuntimeError" in caplog.text
    assert "in fail" in caplog.text, "the place is there"
    assert "X-Amz-" not in caplog.text


def test_a_presigned_url_by_default_settings_is_refused_with_the_cures(s3: S3Server) -> None:
    url = s3.client(region="us-east-1").generate_presigned_url("get_object", {"Bucket": "data", "Key": "a"})
    status, answer = s3.send("GET", url.removeprefix(s3.url), {})
    assert (status, b"Signature Version 2" in answer) == (400, True)
    assert b"aws configure set default.s3.signature_version s3v4" in answer


def test_a_presigned_url_works_with_the_configuration_that_the_refusal_names(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\ns3 =\n    signature_version = s3v4\n")  # as `aws configure set` writes it
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    s3.path("data", "a").write_bytes(b"hello")
    client = s3.client(region="us-east-1", own_session=Session())
    url = client.generate_presigned_url("get_object", {"Bucket": "data", "Key": "a"})
    assert s3.send("GET", url.removeprefix(s3.url), {}) == (200, b"hello")


def test_a_bucket_that_does_not_exist_is_named_with_the_way_to_those_of_aws(client: Any, s3: S3Server) -> None:
    with pytest.raises(ClientError) as error:
        client.list_objects_v2(Bucket="their-data")
    assert code(error) == ("NoSuchBucket", 404)
    text = error.value.response["Error"]["Message"]
    assert text.startswith(f"The specified bucket does not exist: their-data. Buckets here are folders of {s3.root}. ")
    assert "`jupyter smx aws start --s3 aws`" in text


def test_a_presigned_put_works(s3: S3Server) -> None:
    client = s3.client(signature_version="s3v4")
    url = client.generate_presigned_url("put_object", {"Bucket": "data", "Key": "a"})
    assert s3.send("PUT", url.removeprefix(s3.url), {}, b"hello")[0] == 200
    assert s3.path("data", "a").read_bytes() == b"hello"


def test_a_wrong_secret_is_refused(s3: S3Server) -> None:
    with pytest.raises(ClientError) as error:
        s3.client(secret="x" * 40).put_object(Bucket="data", Key="a", Body=b"1")
    assert code(error) == ("SignatureDoesNotMatch", 403)
    assert not s3.path("data", "a").exists()


def test_a_clock_that_is_twenty_minutes_off_is_refused(client: Any, s3: S3Server) -> None:
    s3.skew[0] = 20 * 60
    with pytest.raises(ClientError) as error:
        client.list_buckets()
    assert code(error) == ("RequestTimeTooSkewed", 403)
