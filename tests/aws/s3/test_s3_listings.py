"""Listings and buckets through botocore's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_smx.aws.s3.operations.list_operations import collect_page, group_entries
from jupyter_smx.aws.s3.storage.key_walk import KeyWalk

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import S3Server


def fill(s3: S3Server, keys: list[str]) -> None:
    for key in keys:
        path = s3.path("data", key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def names(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    keys = [found["Key"] for found in answer.get("Contents", [])]
    return keys, [found["Prefix"] for found in answer.get("CommonPrefixes", [])]


def pages(client: Any, operation: str, **options: Any) -> list[tuple[list[str], list[str]]]:
    return [names(page) for page in client.get_paginator(operation).paginate(Bucket="data", **options)]


def test_keys_come_in_the_order_of_their_bytes(client: Any, s3: S3Server) -> None:
    keys = ["a", "a-b/c", "a.b", "b/c/d", "b/c-d", "b0", "B", "é", "日"]
    fill(s3, keys)
    assert names(client.list_objects_v2(Bucket="data"))[0] == sorted(keys)


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
def test_2500_keys_come_in_three_pages(client: Any, s3: S3Server, operation: str) -> None:
    keys = [f"{number:04}" for number in range(2500)]
    fill(s3, keys)
    found = pages(client, operation)
    assert [len(page[0]) for page in found] == [1000, 1000, 500]
    assert [key for page in found for key in page[0]] == keys


@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_common_prefixes_come_once(client: Any, s3: S3Server, operation: str, size: int) -> None:
    fill(s3, ["a/1", "a/2", "b", "c/d/1", "c/e", "x/1", "c-1"])
    s3.path("data", "empty/folder").mkdir(parents=True)
    found = pages(client, operation, Delimiter="/", PaginationConfig={"PageSize": size})
    assert [key for page in found for key in page[0]] == ["b", "c-1"]
    assert [prefix for page in found for prefix in page[1]] == ["a/", "c/", "x/"]
    below = pages(client, operation, Delimiter="/", Prefix="c/", PaginationConfig={"PageSize": size})
    assert [entry for page in below for entry in (*page[0], *page[1])] == (
        ["c/e", "c/d/"] if size > 1 else ["c/d/", "c/e"]
    )


def test_start_after_and_prefix_choose_keys(client: Any, s3: S3Server) -> None:
    fill(s3, ["a/1", "a/2", "ab", "b/1"])
    assert names(client.list_objects_v2(Bucket="data", StartAfter="a/1"))[0] == ["a/2", "ab", "b/1"]
    assert names(client.list_objects_v2(Bucket="data", Prefix="a"))[0] == ["a/1", "a/2", "ab"]
    assert names(client.list_objects_v2(Bucket="data", Delimiter="/", StartAfter="a/1")) == (["ab"], ["a/", "b/"])
    assert names(client.list_objects_v2(Bucket="data", Delimiter="/", StartAfter="a/2")) == (["ab"], ["b/"])
    for prefix in ("a/1/", "x", "../", "a//", "/"):
        assert names(client.list_objects_v2(Bucket="data", Prefix=prefix)) == ([], [])


def test_any_delimiter_groups_keys(client: Any, s3: S3Server) -> None:
    fill(s3, ["a-1", "a-2", "b/c-1", "b/c-2", "d"])
    assert names(client.list_objects_v2(Bucket="data", Delimiter="-")) == (["d"], ["a-", "b/c-"])
    found = pages(client, "list_objects_v2", Delimiter="-", PaginationConfig={"PageSize": 1})
    assert found == [([], ["a-"]), ([], ["b/c-"]), (["d"], [])]


def test_a_listing_without_encoding_escapes_xml(s3: S3Server) -> None:
    fill(s3, ["a&b<c>"])
    headers = s3.signed_headers("GET", "/data?list-type=2", {}, "UNSIGNED-PAYLOAD")
    status, body = s3.send("GET", "/data?list-type=2", headers)
    assert (status, b"<Key>a&amp;b&lt;c&gt;</Key>" in body) == (200, True)


def test_bad_parameters_of_a_listing_are_refused(client: Any) -> None:
    for options in ({"ContinuationToken": "%%%"}, {"MaxKeys": -1}):
        with pytest.raises(ClientError) as error:
            client.list_objects_v2(Bucket="data", **options)
        assert error.value.response["Error"]["Code"] == "InvalidArgument"
    assert client.list_objects_v2(Bucket="data", MaxKeys=0)["IsTruncated"] is False


SEGMENT = st.text("ab-/0", min_size=1, max_size=5).map(lambda text: text.strip("/") or "a")
KEY = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join).filter(lambda key: "//" not in key)
QUERY = st.tuples(st.text("ab-/", max_size=3), st.sampled_from(["", "/", "-", "b"]))
"""Prefix and delimiter."""


def reference(keys: set[str], prefix: str, delimiter: str, after: str) -> list[str]:
    """Return what S3 lists, from the definition: keys in order, grouped, after a name."""
    entries = set()
    for key in keys:
        if key.startswith(prefix) and key > after:
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            entries.add(key if end < 0 else key[: end + len(delimiter)])
    return sorted(entries - {after})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(KEY, max_size=12), QUERY, KEY, st.data())
def test_the_walk_lists_what_the_definition_says(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], query: tuple[str, str], after: str, data: st.DataObject
) -> None:
    prefix, delimiter = query
    folder: Path = tmp_path_factory.mktemp("bucket")
    keys = {key for key in names if not any(other.startswith(f"{key}/") for other in names)}
    for key in keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(b"")
    after = data.draw(st.sampled_from(["", after, *sorted(keys)]))

    def entries(start: str) -> list[str]:
        walk = KeyWalk(str(folder), lambda _: False, prefix, start, is_folded=delimiter == "/")
        found = group_entries(walk, prefix, delimiter, start) if delimiter not in {"", "/"} else walk
        return [entry.name for entry in found]

    expected = reference(keys, prefix, delimiter, after)
    assert entries(after) == expected
    found, start = [], after
    while page := entries(start)[:2]:
        found += page
        start = page[-1]
    assert found == expected


def test_a_page_says_whether_another_one_follows(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"")
    walk = KeyWalk(str(tmp_path), lambda _: False)
    assert [collect_page(walk, limit).next_after for limit in (0, 1, 2, 3, 4)] == ["", "a", "b", "", ""]


def test_buckets_are_folders(client: Any, s3: S3Server) -> None:
    client.create_bucket(Bucket="new-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    client.create_bucket(Bucket="new-bucket")
    (s3.root / "No_Bucket").mkdir()
    listed = client.list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in listed] == ["data", "new-bucket"]
    assert all(bucket["CreationDate"].year >= 2026 for bucket in listed)
    assert client.get_bucket_location(Bucket="new-bucket")["LocationConstraint"] == "eu-west-1"
    assert client.head_bucket(Bucket="new-bucket")["BucketRegion"] == "eu-west-1"
    client.put_object(Bucket="new-bucket", Key="a/b", Body=b"1")
    with pytest.raises(ClientError) as error:
        client.delete_bucket(Bucket="new-bucket")
    assert error.value.response["Error"]["Code"] == "BucketNotEmpty"
    client.delete_object(Bucket="new-bucket", Key="a/b")
    client.delete_bucket(Bucket="new-bucket")
    assert not s3.path("new-bucket").exists()
    with pytest.raises(ClientError) as error:
        client.head_bucket(Bucket="new-bucket")
    assert error.value.response["Error"] == {"Code": "404", "Message": "Not Found"}


def test_a_bucket_with_a_file_that_is_no_object_stays(client: Any, s3: S3Server) -> None:
    s3.path("data", "link").symlink_to("/etc/hostname")
    with pytest.raises(ClientError) as error:
        client.delete_bucket(Bucket="data")
    assert error.value.response["Error"]["Code"] == "BucketNotEmpty"
    assert s3.path("data", "link").is_symlink()


@pytest.mark.parametrize("name", ["ab", "Abc", "a..b", "a" * 64, "-abc", ".smx", "1.2.3.4"])
def test_names_that_no_bucket_can_have_are_refused(s3: S3Server, name: str) -> None:
    headers = s3.signed_headers("PUT", f"/{name}", {}, "UNSIGNED-PAYLOAD")
    status, body = s3.send("PUT", f"/{name}", headers)
    assert (status, b"InvalidBucketName" in body) == (400, True)


def test_configurations_of_buckets_are_empty(client: Any) -> None:
    assert "Status" not in client.get_bucket_versioning(Bucket="data")
    assert "LoggingEnabled" not in client.get_bucket_logging(Bucket="data")
    assert client.get_bucket_acl(Bucket="data")["Grants"][0]["Permission"] == "FULL_CONTROL"
    for call, expected in [
        (client.get_bucket_policy, "NoSuchBucketPolicy"),
        (client.get_bucket_tagging, "NoSuchTagSet"),
        (client.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
        (client.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
        (client.list_object_versions, "NotImplemented"),
    ]:
        with pytest.raises(ClientError) as error:
            call(Bucket="data")
        assert error.value.response["Error"]["Code"] == expected


@pytest.mark.parametrize("query", ["max-keys", "max-uploads", "partNumber"])
def test_a_number_of_thousands_of_digits_is_refused(s3: S3Server, query: str) -> None:
    uploads = "uploads=&" if query == "max-uploads" else ""
    digits = "1" * 5000
    path = f"/data/a?partNumber={digits}&uploadId=a" if query == "partNumber" else f"/data?{uploads}{query}={digits}"
    method = "PUT" if query == "partNumber" else "GET"
    status, answer = s3.send(method, path, s3.signed_headers(method, path, {}, "UNSIGNED-PAYLOAD"))
    assert (status, b"InvalidArgument" in answer) == (400, True)
