"""Bodies: chunks with and without signatures, trailers, changed bytes, early answers, and faults in an upload."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import http.client
import os
import socket
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from conftest import KEY, SECRET, S3Server
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.aws.s3 import handler
from jupyter_smx.aws.s3.forms import checksums
from jupyter_smx.aws.s3.forms.aws_chunked import ChunkDecoder
from jupyter_smx.aws.service import AwsError
from jupyter_smx.aws.signature import RequestHead, chunk_signatures
from jupyter_smx.aws.signing import keys
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def encode(chunks: Sequence[bytes], trailers: str = "") -> bytes:
    pieces = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
    return b"".join(pieces) + b"0\r\n" + trailers.encode() + b"\r\n"


def sign_chunks(authorization: str, timestamp: str, chunks: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Encode chunks as a client signs them, from the signature of the head on."""
    scope = authorization.partition("Credential=")[2].partition(",")[0].partition("/")[2]
    previous = authorization.partition("Signature=")[2]
    key = keys.signing_key(SECRET, *scope.split("/")[:3])
    body = b""
    for chunk in (*chunks, b""):
        lines = ("AWS4-HMAC-SHA256-PAYLOAD", timestamp, scope, previous, EMPTY, hashlib.sha256(chunk).hexdigest())
        previous = keys.sign(key, "\n".join(lines))
        end = b"\r\n" if chunk else b""
        body += b"%x;chunk-signature=%b\r\n%b" % (len(chunk), previous.encode(), chunk) + end
    if trailer:
        lines = ("AWS4-HMAC-SHA256-TRAILER", timestamp, scope, previous, hashlib.sha256(trailer + b"\n").hexdigest())
        signature = keys.sign(key, "\n".join(lines))
        body += trailer + b"\r\nx-amz-trailer-signature:" + signature.encode() + b"\r\n"
    return body + b"\r\n"


def put_signed(
    s3: S3Server, chunks: Sequence[bytes], *, trailer: bytes = b"", change: bytes = b""
) -> tuple[int, bytes]:
    length = str(sum(map(len, chunks)))
    headers = {"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": length}
    kind = SIGNED_CHUNKS
    if trailer:
        kind += "-TRAILER"
        headers["X-Amz-Trailer"] = "x-amz-checksum-crc32"
    signed = s3.signed_headers("PUT", "/data/a", headers, kind)
    body = sign_chunks(signed["Authorization"], signed["X-Amz-Date"], chunks, trailer)
    return s3.send("PUT", "/data/a", signed, body.replace(change, change.swapcase()) if change else body)


def put_unsigned(s3: S3Server, body: bytes, length: int, **headers: str) -> tuple[int, bytes]:
    fields = {"Content-Encoding": "aws-chunked", "X-Amz-Decoded-Content-Length": str(length), **headers}
    return s3.send("PUT", "/data/a", s3.signed_headers("PUT", "/data/a", fields, UNSIGNED_CHUNKS), body)


def test_chunks_with_a_trailing_checksum_are_decoded(client: Any, s3: S3Server) -> None:
    chunks = [os.urandom(70_000), b"end"]
    body = b"".join(chunks)
    trailer = {"X-Amz-Trailer": "x-amz-checksum-crc32"}
    encoded = encode(chunks, f"x-amz-checksum-crc32:{crc32(body)}\r\n")
    assert put_unsigned(s3, encoded, len(body), **trailer)[0] == 200
    found = client.get_object(Bucket="data", Key="a", ChecksumMode="ENABLED")
    assert (found["Body"].read(), found["ChecksumCRC32"]) == (body, crc32(body))
    assert "ContentEncoding" not in found
    status, answer = put_unsigned(s3, encode([b"other"], f"x-amz-checksum-crc32:{crc32(body)}\r\n"), 5, **trailer)
    assert (status, b"BadDigest" in answer) == (400, True)
    status, answer = put_unsigned(s3, encode([b"other"]), 5, **trailer)
    assert (status, b"MalformedTrailerError" in answer) == (400, True)
    assert client.get_object(Bucket="data", Key="a")["Body"].read() == body


@pytest.mark.parametrize(
    ("body", "length", "code"),
    [
        (encode([b"abc"]), 4, b"IncompleteBody"),
        (b"3\r\nabc\r\n", 3, b"IncompleteBody"),
        (b"x\r\nabc\r\n0\r\n\r\n", 3, b"InvalidRequest"),
        (b"2\r\nabc\r\n0\r\n\r\n", 3, b"InvalidRequest"),
    ],
)
def test_malformed_chunks_are_refused(s3: S3Server, body: bytes, length: int, code: bytes) -> None:
    status, answer = put_unsigned(s3, body, length)
    assert (status, code in answer) == (400, True)
    assert not s3.path("data", "a").exists()


def test_signed_chunks_pass_and_changed_ones_are_refused(s3: S3Server) -> None:
    assert put_signed(s3, [b"hello ", b"world"])[0] == 200
    assert s3.path("data", "a").read_bytes() == b"hello world"
    status, answer = put_signed(s3, [b"HELLO ", b"world"], change=b"world")
    assert (status, b"SignatureDoesNotMatch" in answer) == (403, True)
    assert s3.path("data", "a").read_bytes() == b"hello world"


def test_a_signed_trailer_passes_and_a_changed_one_is_refused(s3: S3Server) -> None:
    trailer = f"x-amz-checksum-crc32:{crc32(b'hello')}".encode()
    assert put_signed(s3, [b"hello"], trailer=trailer)[0] == 200
    assert put_signed(s3, [b"hello"], trailer=trailer, change=trailer[-8:])[0] == 403
    headers = {"host": "h", "x-amz-date": "20260131T120000Z"}
    authorization = f"AWS4-HMAC-SHA256 Credential={KEY}/20260131/r/s3/aws4_request, SignedHeaders=host, Signature=a"
    head = RequestHead("PUT", "/data/a", "", {**headers, "authorization": authorization})
    body = sign_chunks(authorization, "20260131T120000Z", [b"a"], trailer).replace(b"x-amz-trailer-signature", b"x")
    with pytest.raises(AwsError, match="trailer"):
        ChunkDecoder(chunk_signatures(head, {KEY: SECRET}), has_trailer=True).feed(body)


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(1, 30), max_size=20))
def test_the_decoder_gives_the_same_bytes_for_any_pieces(chunks: list[bytes], cuts: list[int]) -> None:
    encoded = encode(chunks, "x-a: 1\r\nX-B:2\r\n")
    decoder, output, position = ChunkDecoder(), b"", 0
    for size in (*cuts, len(encoded)):
        output += decoder.feed(encoded[position : position + size])
        position += size
    decoder.finish()
    assert output == b"".join(chunks)
    assert decoder.trailers == {"x-a": "1", "x-b": "2"}


@pytest.mark.parametrize("pieces", [[encode([b"a"]) + b"x"], [encode([b"a"]), b"x"]])
def test_bytes_behind_the_end_are_refused(pieces: list[bytes]) -> None:
    decoder = ChunkDecoder()
    with pytest.raises(AwsError, match="follow its end"):
        list(map(decoder.feed, pieces))


def test_a_trailer_without_limit_is_refused() -> None:
    decoder = ChunkDecoder()
    decoder.feed(encode([b"a"], "x-a:1\r\n" * 2000)[:-2])
    with pytest.raises(AwsError, match="trailer is too long"):
        decoder.feed(b"x-b:2\r\n" * 2000)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_the_decoder_ends_for_any_bytes(body: bytes, cut: int) -> None:
    decoder = ChunkDecoder()
    with contextlib.suppress(AwsError):
        for piece in (body[:cut], body[cut:]):
            decoder.feed(piece)
        decoder.finish()


@pytest.mark.parametrize(("name", "expected"), [("crc32c", "e3069283"), ("crc64nvme", "ae8b14860a799888")])
def test_sums_in_plain_python_have_the_published_check_values(name: str, expected: str) -> None:
    value = checksums.extend_by_table(name, checksums.extend_by_table(name, 0, b"1234"), b"56789")
    assert f"{value:x}" == expected
    running = checksums.start_checksum(name)
    running.update(b"1234")
    running.update(b"56789")
    assert running.digest().hex() == expected


def test_a_changed_body_is_refused(s3: S3Server) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {}, hashlib.sha256(b"hello").hexdigest())
    assert s3.send("PUT", "/data/a", headers, b"hello")[0] == 200
    status, answer = s3.send("PUT", "/data/a", headers, b"hallo")
    assert (status, b"XAmzContentSHA256Mismatch" in answer) == (403, True)
    assert s3.path("data", "a").read_bytes() == b"hello"


def expect(s3: S3Server, headers: dict[str, str], length: int) -> tuple[socket.socket, bytes]:
    """Send the head of an upload that waits for 100, and return the connection and the first answer."""
    connection = socket.create_connection(("127.0.0.1", s3.port), timeout=20)
    fields = {**headers, "Content-Length": str(length), "Expect": "100-continue", "Host": f"127.0.0.1:{s3.port}"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    connection.sendall(f"PUT /data/a HTTP/1.1\r\n{lines}\r\n".encode())
    return connection, connection.recv(65536)


def test_a_client_that_expects_100_gets_it_before_its_body(s3: S3Server) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {}, "UNSIGNED-PAYLOAD")
    connection, first = expect(s3, headers, 5)
    with connection:
        assert first.startswith(b"HTTP/1.1 100")
        connection.sendall(b"hello")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_client_that_expects_100_gets_an_error_without_its_body(s3: S3Server) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {"If-Match": '"x"'}, "UNSIGNED-PAYLOAD")
    connection, first = expect(s3, headers, 1 << 40)
    with connection:
        assert first.startswith(b"HTTP/1.1 404")
        assert b"\r\nconnection: close\r\n" in first.lower()


def test_a_client_that_sends_its_body_at_once_reads_the_error(s3: S3Server) -> None:
    headers = s3.signed_headers("PUT", "/absent-bucket/a", {}, "UNSIGNED-PAYLOAD")
    status, answer = s3.send("PUT", "/absent-bucket/a", headers, b"x" * 5_000_000)
    assert (status, b"NoSuchBucket" in answer) == (404, True)


def test_a_refused_body_is_not_read_without_limit(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_DROPPED", 100_000)
    head = f"PUT /data/a HTTP/1.1\r\nHost: 127.0.0.1:{s3.port}\r\nContent-Length: {1 << 49}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", s3.port), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head.encode() + b"x" * 200_000)
        assert b"MissingAuthenticationToken" in connection.recv(65536)


@pytest.mark.parametrize("size", [10, 3 * 1024 * 1024])
def test_a_full_disk_is_an_error_and_the_object_stays(
    client: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    client.put_object(Bucket="data", Key="a", Body=b"old")
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if ".smx/temporary" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(ClientError) as error:
            client.put_object(Bucket="data", Key="a", Body=b"x" * size)
    response = error.value.response
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == ("InsufficientStorage", 507)
    assert "no room" in response["Error"]["Message"]
    assert client.get_object(Bucket="data", Key="a")["Body"].read() == b"old"
    assert s3.temporary_files() == []


async def test_a_full_disk_ends_an_upload_before_its_end(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {}, "UNSIGNED-PAYLOAD")
    write, may_fail = os.write, threading.Event()

    def full(descriptor: int, data: bytes) -> int:
        if ".smx/temporary" not in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            return write(descriptor, data)
        may_fail.wait(20)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    connection, _ = expect(s3, headers, 1 << 30)
    with connection:
        connection.sendall(b"x" * 1_500_000)
        await eventually(s3.temporary_files)
        may_fail.set()
        await eventually(lambda: not s3.temporary_files(), "the file is removed while the client still sends")
        assert s3.running_requests()


@pytest.mark.parametrize("name", ["pwrite", "copy_file_range"])
def test_a_full_disk_among_parts_is_an_error_and_the_upload_goes_on(
    client: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = {"Bucket": "data", "Key": "a"}
    upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
    bodies = [os.urandom(5 * 1024 * 1024), b"last"]

    def put(number: int) -> dict[str, Any]:
        etag = client.upload_part(**upload, PartNumber=number, Body=bodies[number - 1])["ETag"]
        return {"PartNumber": number, "ETag": etag}

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    parts = [] if name == "pwrite" else [put(1), put(2)]
    with monkeypatch.context() as patched:
        patched.setattr(os, name, full)
        if name == "copy_file_range":
            patched.setattr(os, "pread", full)  # what a copy falls back to
        with pytest.raises(ClientError) as error:
            client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}) if parts else put(1)
    assert error.value.response["Error"]["Code"] == "InsufficientStorage"
    parts = parts or [put(1), put(2)]
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.path("data", "a").read_bytes() == b"".join(bodies)


async def test_a_broken_upload_leaves_nothing(s3: S3Server) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {}, "UNSIGNED-PAYLOAD")
    connection, first = expect(s3, headers, 1 << 30)
    with connection:
        assert first.startswith(b"HTTP/1.1 100")
        connection.sendall(b"x" * 5_000_000)
    await eventually(lambda: not s3.temporary_files())
    await eventually(lambda: not s3.running_requests(), "the task of the handler ends")
    assert not s3.path("data", "a").exists()


def test_a_file_that_becomes_shorter_while_it_is_sent_breaks_the_connection(s3: S3Server) -> None:
    path = s3.path("data", "a")
    path.write_bytes(b"")
    os.truncate(path, 1 << 30)
    headers = s3.signed_headers("GET", "/data/a", {}, "UNSIGNED-PAYLOAD")
    connection = http.client.HTTPConnection("127.0.0.1", s3.port, timeout=20)
    connection.request("GET", "/data/a", headers=headers)
    response = connection.getresponse()
    assert response.read(10) == bytes(10)
    os.truncate(path, 10)
    received = sum(map(len, iter(lambda: response.read(1 << 20), b"")))
    assert received < (1 << 30) - 10, "the connection broke"
    connection.close()


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<Delete>",
        b"<Other/>",
        b"<Delete/>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><Delete><Object><Key>&a;</Key></Object></Delete>',
        b"<Delete>" + b"<a>" * 100,
    ],
)
def test_malformed_documents_are_refused(s3: S3Server, document: bytes) -> None:
    headers = s3.signed_headers("POST", "/data?delete", {}, "UNSIGNED-PAYLOAD")
    status, answer = s3.send("POST", "/data?delete", headers, document)
    assert (status, b"<Code>MalformedXML</Code>" in answer) == (400, True)


def test_a_document_without_limit_is_refused(s3: S3Server) -> None:
    headers = s3.signed_headers("POST", "/data?delete", {}, "UNSIGNED-PAYLOAD")
    status, answer = s3.send("POST", "/data?delete", headers, b"x" * 9_000_000)
    assert (status, b"MaxMessageLengthExceeded" in answer) == (400, True)


@pytest.mark.parametrize("payload", ["", "nonsense", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"])
def test_unknown_digests_of_bodies_are_refused(s3: S3Server, payload: str) -> None:
    headers = s3.signed_headers("PUT", "/data/a", {}, payload)
    assert s3.send("PUT", "/data/a", headers, b"x")[0] == 400


def test_a_request_without_a_signature_is_refused(s3: S3Server) -> None:
    for method in ("GET", "PUT", "OPTIONS"):
        status, answer = s3.send(method, "/data/a", {"Origin": "http://evil.example"}, b"")
        assert (status, b"MissingAuthenticationToken" in answer) == (403, True)


def test_a_path_that_is_not_utf8_is_refused(s3: S3Server) -> None:
    headers = s3.signed_headers("GET", "/data/%FF", {}, "UNSIGNED-PAYLOAD")
    status, _ = s3.send("GET", "/data/%FF", headers)
    assert status in {400, 403}
