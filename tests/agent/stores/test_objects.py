"""Which objects a source means and what they are called in a channel: SageMaker's rules, one in each row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.agent.stores.objects import (
    Object,
    ObjectsError,
    check_objects,
    object_url,
    parse_manifest,
    select_objects,
    select_pages,
    select_share,
    split_chain,
)

KEYS = ("d/train/a", "d/train/sub/b", "d/train/", "d/trainX", "d/training/c", "d/test/e", "train.csv", "train.csv.bak")


def called(source: str, *keys: str) -> dict[str, str]:
    found = select_objects([Object(f"s3://b/{key}", 1, "m") for key in keys], source)
    return {one.url.removeprefix("s3://b/"): one.name for one in found}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("s3://b/d/train/", {"d/train/a": "a", "d/train/sub/b": "sub/b"}),
        (
            "s3://b/d/train",
            {"d/train/a": "a", "d/train/sub/b": "sub/b", "d/trainX": "trainX", "d/training/c": "training/c"},
        ),
        ("s3://b/d/traini", {"d/training/c": "training/c"}),
        ("s3://b/d/t", {key: key[2:] for key in KEYS if key.startswith("d/t") and key != "d/train/"}),
        ("s3://b/train.csv", {"train.csv": "train.csv", "train.csv.bak": "train.csv.bak"}),
        ("s3://b/train.csv.bak", {"train.csv.bak": "train.csv.bak"}),
        ("s3://b/d/train/sub/b", {"d/train/sub/b": "b"}),
        ("s3://b/", {key: key for key in KEYS if key != "d/train/"}),
        ("s3://b", {key: key for key in KEYS if key != "d/train/"}),
        ("s3://b/D", {}),
        ("s3://b/d/train/a/", {}),
    ],
)
def test_a_prefix_is_a_piece_of_text(source: str, expected: dict[str, str]) -> None:
    assert called(source, *KEYS) == expected


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://x.org/data/a.csv", "a.csv"),
        ("https://x.org/data/a%20b.csv?version=2#top", "a b.csv"),
        ("http://x.org/data.php?file=1", "data.php"),
        ("http://x.org", "index"),
    ],
)
def test_a_page_of_the_web_is_one_file_with_the_last_part_of_its_path(source: str, name: str) -> None:
    (found,) = select_objects([Object(source, 1, "")], source)
    assert found.name == name


@pytest.mark.parametrize(
    ("source", "path", "name", "url"),
    [
        ("s3://b/d/tr", "b/d/tr", "b/d/train/a", "s3://b/d/train/a"),
        ("s3a://b", "b", "b/a", "s3a://b/a"),
        ("s3://b/d/", "b/d", "b/d/a b#?", "s3://b/d/a b#?"),
        ("ftp://me:word@host:2121/d/tr", "/d/tr", "/d/train/a", "ftp://me:word@host:2121/d/train/a"),
        ("sftp://host/d/", "/d", "/d/a", "sftp://host/d/a"),
        ("ftp://host/", "/", "/a", "ftp://host/a"),
        ("ftp://host", "/", "/d/a", "ftp://host/d/a"),
        ("ftp://host/host", "/host", "/host/a", "ftp://host/host/a"),
        ("abfs://c@acc.example/d/", "c/d", "c/d/a", "abfs://c@acc.example/d/a"),
        ("file:///d/tr", "/d/tr", "/d/train", "file:///d/train"),
        ("zip://", "", "a/b", "zip://a/b"),
        ("zip://tr", "tr", "train/b", "zip://train/b"),
    ],
)
def test_an_object_is_named_in_the_words_in_which_its_source_was(source: str, path: str, name: str, url: str) -> None:
    assert object_url(name, path, source) == url


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("https://h/d/a", "https://h/d/a"),
        ("http://h/d/a", "https://h/d/a"),
        ("https://h/d/./a%20b", "https://h/d/a%20b"),
        ("https://h/d/a&amp;b", "https://h/d/a&b"),
        ("https://h/d/?C=M;O=A", None),
        ("https://h/d/a?download=1", None),
        ("https://h/d/a#top", None),
        ("https://h/d/", None),
        ("https://h/d/sub/", None),
        ("https://h/d/../e", None),
        ("https://h/e", None),
    ],
)
def test_links_that_lead_out_of_a_folder_of_the_web_or_only_sort_it_are_no_pages(link: str, page: str | None) -> None:
    assert select_pages([link], "https://h/d/") == ([page] if page else [])


def test_pages_of_a_folder_are_called_what_they_are_called_without_the_escapes_of_the_web() -> None:
    found = [Object(f"https://h/d/{name}", 1, "") for name in ("a%20b", "sub/c")]
    assert [one.name for one in select_objects(found, "https://h/d/")] == ["a b", "sub/c"]
    with pytest.raises(ObjectsError, match="a part of its key is empty"):
        check_objects(select_objects([Object("https://h/d/%2e%2e%2fetc", 1, "")], "https://h/d/"), "train")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "a"], "would both be a"),
        (["a", "a/b"], "s3://b/0 would be a file, but s3://b/1 needs a folder of that name"),
        (["a/b/c", "a/b"], "s3://b/1 would be a file, but s3://b/0 needs"),
        (["../a"], "a part of its key is empty, . or .."),
        (["a//b"], "a part of its key is empty"),
        (["./a"], "a part of its key is empty"),
        (["/a"], "a part of its key is empty"),
    ],
)
def test_what_cannot_be_files_of_one_channel_is_refused(names: list[str], said: str) -> None:
    with pytest.raises(ObjectsError, match="channel train: ") as refusal:
        check_objects([Object(f"s3://b/{number}", 1, "", name) for number, name in enumerate(names)], "train")
    assert said in str(refusal.value)


def test_names_that_begin_alike_are_different_files() -> None:
    check_objects([Object("s3://b/a", 1, "", name) for name in ("a", "ab", "b/a", "b/a.txt", "c/a")], "train")


@settings(deadline=None)  # a machine that others use as well has its pauses
@given(st.sets(st.text("abc/", min_size=1, max_size=6), max_size=40), st.integers(1, 9))
def test_the_shares_are_dealt_out_in_turns_over_sorted_keys_and_make_the_whole(keys: set[str], count: int) -> None:
    meant = select_objects([Object(f"s3://b/{key}", 1, "") for key in keys], "s3://b/")
    parts = [select_share(meant, {"turn": turn, "count": count}) for turn in range(count)]
    assert sorted(one.url for part in parts for one in part) == [one.url for one in meant]
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(meant.index(one) % count == turn for turn, part in enumerate(parts) for one in part)
    again = select_objects([Object(f"s3://b/{key}", 1, "") for key in sorted(keys, reverse=True)], "s3://b/")
    assert again == meant, "the order of a listing does not matter"


def test_a_manifest_names_objects_which_keep_their_keys() -> None:
    text = json.dumps([{"prefix": "s3://b/p/"}, "x", "deep/y"])
    assert parse_manifest(text, "m") == [("s3://b/p/x", "p/x"), ("s3://b/p/deep/y", "p/deep/y")]
    assert parse_manifest(json.dumps([{"prefix": "s3://b"}, "/x"]), "m") == [("s3://b/x", "x")]


def test_a_manifest_is_shared_in_the_order_of_keys_as_a_prefix_is() -> None:
    listed = [Object(f"s3://b/{key}", 1, "", key) for key in ("c", "a", "b")]
    parts = [[one.name for one in select_share(listed, {"turn": turn, "count": 2})] for turn in (0, 1)]
    assert parts == [["a", "c"], ["b"]]
    assert select_share(listed, {"turn": 0, "count": 1}) == listed


def test_what_is_inside_of_an_archive_is_told_from_a_key_with_colons() -> None:
    assert split_chain("zip://d/::s3://b/all.zip") == ("zip://d/", "::s3://b/all.zip")
    assert split_chain("tar://::file:///all.tar") == ("tar://", "::file:///all.tar")
    assert split_chain("s3://b/a::b") == ("s3://b/a::b", "")
    found = [Object(f"zip://{name}::s3://b/all.zip", 1, "") for name in ("d/a", "dx/b", "e")]
    assert [one.name for one in select_objects(found, "zip://d::s3://b/all.zip")] == ["a", "dx/b"]
    assert [one.name for one in select_objects(found, "zip://::s3://b/all.zip")] == ["d/a", "dx/b", "e"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"prefix": "s3://b/"}]', "names no object"),
        ("no", "it is not valid JSON"),
        ("{}", "a list that begins with"),
        ("[]", "a list that begins with"),
        ('["a"]', "a list that begins with"),
        ('[{"prefix": "s3://b/", "more": 1}]', "a list that begins with"),
        ('[{"prefix": 1}]', "1 is not a string"),
        ('[{"prefix": "s3://b/"}, {"a": 1}]', "is not a string"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, said: str) -> None:
    with pytest.raises(ObjectsError, match="is not a manifest") as refusal:
        parse_manifest(text, "s3://b/m")
    assert said in str(refusal.value)
