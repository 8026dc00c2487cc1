"""Parts at their final places: any order, sizes and replacements give the right object, and nothing is copied twice."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.aws.s3.storage import part_store
from jupyter_smx.aws.s3.storage.layout import S3Storage
from jupyter_smx.aws.s3.storage.part_slot import ClaimTable, PartSlot
from jupyter_smx.aws.s3.storage.part_store import PartStore
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import S3Server

MIB = 1024 * 1024
PLACE = {"Bucket": "data", "Key": "model"}


def make_store(root: Path) -> PartStore:
    ids = itertools.count(1)
    return PartStore(S3Storage(root, lambda: 0.0, lambda: f"{next(ids):032x}"), "data")


def write(store: PartStore, upload: str, number: int, body: bytes, *, fails: bool = False) -> None:
    """Upload a part; one that fails has written its bytes when it is given up."""
    file = store.open_part(upload, number, len(body))
    file.write([body])
    if not fails:
        store.put(upload, number, file, {})
    file.discard()


UPLOADS = st.tuples(st.integers(1, 5), st.binary(min_size=1, max_size=4), st.booleans())


@given(st.lists(UPLOADS, max_size=10), st.sets(st.integers(1, 5), min_size=1), st.booleans())
def test_any_uploads_of_parts_give_their_last_bytes(
    tmp_path_factory: pytest.TempPathFactory, uploads: list[tuple[int, bytes, bool]], chosen: set[int], fails: bool
) -> None:
    root: Path = tmp_path_factory.mktemp("s3")
    store, expected = make_store(root), dict[int, bytes]()
    with mock.patch.object(part_store, "MIN_SLOT", 1):
        upload = store.create({"key": "model"})
        for number, body, is_broken in uploads:
            write(store, upload, number, body, fails=is_broken)
            if not is_broken:
                expected[number] = body
        stored = store.parts(upload)
        assert {number: part.size for number, part in stored.items()} == {
            number: len(body) for number, body in sorted(expected.items())
        }
        parts = [part for number, part in stored.items() if number in chosen]
        if fails:
            with pytest.raises(OSError, match="full"), store.joined(upload, parts):
                raise OSError("full")
        with store.joined(upload, parts) as file:
            file.move(str(root / "object"))
    assert (root / "object").read_bytes() == b"".join(expected[part.number] for part in parts)


def test_a_place_has_one_writer_and_none_during_a_completion() -> None:
    claims = ClaimTable()
    assert claims.claim("a", 1)
    assert not claims.claim("a", 1)
    assert claims.begin_completion("a") is False
    with pytest.raises(AwsError, match="completes"):
        claims.begin_completion("a")
    assert not claims.claim("a", 2)
    claims.release("a", 1)
    claims.end_completion("a")
    assert claims.begin_completion("a") is True
    claims.end_completion("a")
    assert claims.claim("a", 1)


def test_a_second_request_for_a_part_gets_a_file_of_its_own(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    upload = store.create({"key": "model"})
    first, second = (store.open_part(upload, 1, 5 * MIB) for _ in range(2))
    assert (isinstance(first, PartSlot), isinstance(second, PartSlot)) == (True, False)
    with pytest.raises(AwsError, match="announced"):
        first.write([bytes(5 * MIB + 1)])
    with pytest.raises(AwsError, match="announced"):
        store.put(upload, 1, first, {})
    first.discard()
    second.discard()
    third = store.open_part(upload, 1, 5 * MIB)
    assert isinstance(third, PartSlot)
    third.discard()


def test_a_failed_replacement_leaves_the_stored_part(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    upload = store.create({"key": "model"})
    write(store, upload, 1, b"a" * 5 * MIB)
    write(store, upload, 1, b"b" * 5 * MIB, fails=True)
    with store.joined(upload, list(store.parts(upload).values())) as file:
        file.move(str(tmp_path / "object"))
    assert (tmp_path / "object").read_bytes() == b"a" * 5 * MIB


def test_a_failed_completion_takes_back_what_it_appended(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    upload = store.create({"key": "model"})
    write(store, upload, 1, b"a" * 5 * MIB)
    write(store, upload, 2, b"b")
    data = tmp_path / ".smx/buckets/data/uploads" / upload / "data"
    joined = store.joined(upload, list(store.parts(upload).values()))
    joined.__enter__()
    assert data.stat().st_size == 5 * MIB + 1
    assert not joined.__exit__(OSError, OSError("full"), None)
    assert data.stat().st_size == 5 * MIB


def upload_parts(client: Any, bodies: list[bytes]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    upload = {**PLACE, "UploadId": client.create_multipart_upload(**PLACE)["UploadId"]}
    etags = [client.upload_part(**upload, PartNumber=n, Body=body)["ETag"] for n, body in enumerate(bodies, 1)]
    return upload, [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]


def test_only_the_last_part_is_copied(client: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(1000)]
    upload, parts = upload_parts(client, bodies)
    copied: list[int] = []
    copy = os.copy_file_range

    def record(source: int, target: int, count: int, *offsets: int) -> int:
        copied.append(count)
        return copy(source, target, count, *offsets)

    monkeypatch.setattr(os, "copy_file_range", record)
    client.put_object(**PLACE, Body=b"old")
    with pytest.raises(ClientError):
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
    assert s3.path("data", "model").read_bytes() == b"old"
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.path("data", "model").read_bytes() == b"".join(bodies)
    assert set(copied) <= {1000}


def test_parts_that_a_list_leaves_out_do_not_shift_the_others(client: Any, s3: S3Server) -> None:
    bodies = [os.urandom(5 * MIB) for _ in range(3)]
    upload, parts = upload_parts(client, bodies)
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": [parts[0], parts[2]]})
    assert s3.path("data", "model").read_bytes() == bodies[0] + bodies[2]
