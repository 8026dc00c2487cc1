"""How objects are taken in: each is fetched once however many there are, and nothing is taken for what it is not."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx.agent
from jupyter_smx.agent.channels import stage_in
from jupyter_smx.agent.channels.channel_types import ChannelCapabilities, StageResult
from jupyter_smx.agent.stores import digest, fuse_mount, worker_client
from jupyter_smx.agent.stores.input_cache import CacheEntry, InputCache
from jupyter_smx.agent.stores.listing import ChannelListing, Item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.testing.servers.file_servers import FileServer
    from jupyter_smx.testing.servers.object_storage import Bucket, WebServer

pytestmark = pytest.mark.heavy("stores")

ENTRY = str(Path(jupyter_smx.agent.__file__).parent)


class Host:
    """A host that stages channels without a world of its own, and what it remembers between jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: digest.DigestCache = {}
        self.jobs = 0
        self.shown = ""

    def stage(self, sources: Iterable[str], environment: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        """Stage channels called a, b, c … as the next job; gives what it was told, and ``seen`` in each."""
        self.jobs += 1
        channels = [{"name": chr(97 + n), "source": source, **fields} for n, source in enumerate(sources)]
        folders = {one["name"]: str(self.folder / f"job-{self.jobs}" / one["name"]) for one in channels}
        means = worker_client.WorkerOptions((sys.executable,), ENTRY, environment)
        world = ChannelCapabilities(str(self.folder / "inputs"), self.shown, means=means)
        told = stage_in.stage(channels, folders, (), 1 << 30, self.known, world)
        digest.remember_digests(self.known, told["fresh"])
        return {**told, "seen": {name: contents(Path(path)) for name, path in folders.items()}}


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


@pytest.fixture
def full(bucket: Bucket) -> Bucket:
    for key in ("d/a", "d/b", "e/c", "e/deep/d"):
        bucket.put(key, key)
    return bucket


EVERYTHING = {"a": {"a": "d/a", "b": "d/b"}, "b": {"c": "e/c", "deep/d": "e/deep/d"}}
CHANNELS = ("s3://bucket/d/", "s3://bucket/e/")


@pytest.mark.parametrize(("kept", "methods"), [(4, ["content"] * 2), (3, ["content", "listing"]), (1, ["listing"] * 2)])
def test_more_objects_than_a_host_remembers_are_fetched_once_all_the_same(
    host: Host, full: Bucket, monkeypatch: pytest.MonkeyPatch, kept: int, methods: list[str]
) -> None:
    monkeypatch.setattr(digest, "MAX_REMEMBERED", kept)
    told = [host.stage(CHANNELS, full.environment) for _time in range(2)]
    assert [one["seen"] for one in told] == [EVERYTHING] * 2
    assert full.read_keys() == ["d/a", "d/b", "e/c", "e/deep/d"]
    assert [one["method"] for one in told[0]["inputs"]] == methods
    assert told[0]["inputs"] == told[1]["inputs"]
    assert len(host.known) <= kept
    full.put("e/c", "E/C")
    changed = host.stage(CHANNELS, full.environment)
    assert changed["seen"]["b"]["c"] == "E/C"
    before, after = ([one["sha256"] for one in seen["inputs"]] for seen in (told[0], changed))
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)
    assert len(full.read_keys()) == 5


def test_where_the_machine_has_no_fuse_the_objects_are_brought_and_the_record_says_why(
    host: Host, full: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.shown = str(host.folder / "shown")
    monkeypatch.setattr(fuse_mount, "find_rclone", lambda _pythons: "rclone")
    monkeypatch.setattr(fuse_mount, "DEVICE", str(host.folder / "fuse"))
    told = host.stage(CHANNELS[:1], full.environment, mode="FastFile")
    assert told["seen"] == {"a": EVERYTHING["a"]}
    assert told["mounts"] == []
    why = f"{host.folder}/fuse does not exist or cannot be opened"
    (note,) = told["notes"]
    assert note.startswith(f"channel a: FastFile cannot mount s3://bucket/d/ here ({why}), so it was copied")


def test_two_channels_of_a_job_fetch_what_is_in_both_once(host: Host, full: Bucket) -> None:
    told = host.stage(["s3://bucket/d/", "s3://bucket/d/a"], full.environment)
    assert told["seen"] == {"a": {"a": "d/a", "b": "d/b"}, "b": {"a": "d/a"}}
    assert full.read_keys() == ["d/a", "d/b"]


@pytest.mark.parametrize("kept", [100, 1])
def test_what_is_written_while_objects_come_is_not_kept_under_the_tag_of_what_it_replaced(
    host: Host, full: Bucket, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(digest, "MAX_REMEMBERED", kept)

    class Ear(list[bytes]):
        """Writes the object anew when it is asked for, which is after it was listed."""

        def append(self, data: bytes) -> None:
            if b"GET /bucket/d/a" in data:
                full.put("d/a", "newer")
            super().append(data)

    full.proxy.received = Ear()
    assert host.stage(["s3://bucket/d/"], full.environment)["seen"]["a"]["a"] == "newer"
    full.put("d/a", "d/a")
    full.proxy.received = []
    assert host.stage(["s3://bucket/d/"], full.environment)["seen"]["a"] == EVERYTHING["a"]
    assert full.read_keys() == ["d/a"], "the other one was as it was listed"


def test_equal_objects_of_a_channel_are_files_of_their_own(host: Host, full: Bucket) -> None:
    for key in ("f/a", "f/b"):
        full.put(key, "same")
    assert host.stage(["s3://bucket/f/"], full.environment)["seen"]["a"] == {"a": "same", "b": "same"}
    (tree,) = (host.folder / "inputs" / "trees").iterdir()
    assert len({path.stat().st_ino for path in (tree / "data").iterdir()}) == 2


ODD = (
    "a b",
    "a+b",
    "a%20b",
    "ü€",
    "e\u0301",
    "x#y",
    "x?y",
    "[1]*",
    "{x}",
    "a::b",
    "~t",
    "'q'",
    '"q"',
    "a&amp;b",
    "a,b=c;d",
)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("", ODD), ("a::", ["a::b"]), ("a%", ["a%20b"]), ("x", ["x#y", "x?y"]), ("x?", ["x?y"]), ("[", ["[1]*"])],
)
def test_every_letter_of_a_key_is_a_letter(host: Host, bucket: Bucket, prefix: str, expected: list[str]) -> None:
    for key in ODD:
        bucket.put(f"odd/{key}", key)
    told = host.stage([f"s3://bucket/odd/{prefix}"], bucket.environment)
    assert told["seen"]["a"] == {key: key for key in expected}


def test_more_objects_than_one_answer_of_a_store_has_are_all_found(bucket: Bucket) -> None:
    for number in range(1001):
        bucket.put(f"many/{number:04}", "")
    means = worker_client.WorkerOptions((sys.executable,), ENTRY, bucket.environment)
    with contextlib.closing(worker_client.FsspecWorker(means, "a")) as courier:
        channel_of_all = {"name": "a", "source": "s3://bucket/many/", "share": {"turn": 0, "count": 500}}
        assert [one.name for one in worker_client.find_objects(courier, channel_of_all)] == ["0000", "0500", "1000"]


def test_a_manifest_is_shared_by_objects_and_keeps_the_key_of_its_prefix(host: Host, full: Bucket) -> None:
    full.put("list", json.dumps([{"prefix": "s3://bucket/e/"}, "deep/d", "c"]))
    fields = {"data_type": "ManifestFile", "distribution": "ShardedByS3Key"}
    seen = [
        host.stage(["s3://bucket/list"], full.environment, share={"turn": turn, "count": 3}, **fields)["seen"]["a"]
        for turn in range(3)
    ]
    assert seen == [{"e/c": "e/c"}, {"e/deep/d": "e/deep/d"}, {}]
    local = host.folder / "list"
    local.write_text((full.folder / "list").read_text())
    assert len(host.stage([str(local)], full.environment, data_type="ManifestFile")["seen"]["a"]) == 2


def test_what_an_archive_in_a_store_holds_is_a_channel(host: Host, bucket: Bucket) -> None:
    with zipfile.ZipFile(bucket.folder / "all.zip", "w") as archive:
        for name in ("train/a", "train/deep/b", "test"):
            archive.writestr(name, name)
    for place in ("s3://bucket", f"file://{bucket.folder}"):
        told = host.stage([f"zip://train/::{place}/all.zip", f"zip://tr::{place}/all.zip"], bucket.environment)
        assert told["seen"]["a"] == {"a": "train/a", "deep/b": "train/deep/b"}
        assert told["seen"]["b"] == {"train/a": "train/a", "train/deep/b": "train/deep/b"}
    with pytest.raises(worker_client.FetchError, match=r"uses 'simplecache'\. Remove that part"):
        host.stage(["simplecache::s3://bucket/all.zip"], bucket.environment)


class Counted(dict[str, Any]):
    """A dictionary that counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


def test_much_is_forgotten_in_one_go() -> None:
    known = Counted()
    digest.remember_digests(known, {str(number): [number] for number in range(3 * digest.MAX_REMEMBERED)})
    assert known.times == 1
    assert dict.keys(known) == {str(number) for number in range(2 * digest.MAX_REMEMBERED, 3 * digest.MAX_REMEMBERED)}


def test_lazy_channels_do_not_push_out_what_others_are_known_by(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    folders = {"train": str(tmp_path)}
    found = [
        stage_in.describe_lazy(["train"], folders, 1 << 30, {}, digest.MAX_REMEMBERED - room)["fresh"]
        for room in (3, 2)
    ]
    assert [len(fresh) for fresh in found] == [3, 0]


def take(store: InputCache, items: list[Item], arriving: dict[str, str]) -> tuple[CacheEntry, list[str]]:
    """Take objects in, of which these contents arrive; gives what was asked for, too."""
    asked = []

    def bring(pairs: list[tuple[Item, str]]) -> list[tuple[str, bool]]:
        for item, part in pairs:
            asked.append(item.name)
            Path(part).write_text(arriving[item.name])
        return [(digest.hash_path(part), True) for _item, part in pairs]

    with store.lock():
        return store.add_objects(ChannelListing(items, []), bring), asked


@pytest.mark.parametrize("most", [10, 1])
def test_what_no_tag_tells_is_brought_each_time_and_its_size_is_that_of_what_came(tmp_path: Path, most: int) -> None:
    items = [
        Item(name, 0o644, digest.ChannelFile(name, f"http://h/{name}", 0, 0, ("",), settled=False)) for name in "ab"
    ]
    found = []
    for text in ("one", "longer", "one"):
        taken, asked = take(InputCache(str(tmp_path), {}, 0, most), items, {"a": text, "b": "b"})
        assert asked == ["a", "b"]
        assert [(name, size) for name, size, _mark in taken.rows] == [("a", len(text)), ("b", 1)]
        assert (tmp_path / "trees" / taken.key / "bytes").read_text() == str(len(text) + 1)
        found.append(digest.channel_digest(taken.rows))
    assert (found[0] == found[2], found[0] == found[1]) == (True, False)


def test_what_never_became_whole_goes_when_the_host_is_idle(tmp_path: Path) -> None:
    store = InputCache(str(tmp_path), {}, 0)
    items = [
        Item(name, 0o644, digest.ChannelFile(name, f"s3://b/{name}", 1, 0, ("tag",), settled=True)) for name in "ab"
    ]
    with pytest.raises(KeyError):
        take(store, items, {"a": "half of it"})
    assert store.has_trash()
    with store.lock():
        store.empty_trash()
        assert store.has_trash(), "a job may be at it"
    store.empty_trash()
    assert not store.has_trash()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize(("number", "is_made"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_what_earlier_jobs_left_gives_way_where_there_is_no_room(tmp_path: Path, number: int, is_made: bool) -> None:
    left = tmp_path / "trash" / "a job's" / "model"
    left.parent.mkdir(parents=True)
    left.touch()

    def take() -> CacheEntry:
        if left.exists():
            raise OSError(number, os.strerror(number))
        return CacheEntry("key", [], "content")

    world = ChannelCapabilities(str(tmp_path / "inputs"), trash=str(tmp_path / "trash"))
    staged, store = StageResult(0, {}), InputCache(world.store, {}, 0)
    with contextlib.nullcontext() if is_made else pytest.raises(OSError, match="Input/output error"):
        assert stage_in._with_room(staged, store, world, take).key == "key"
        assert staged.keys == {"key"}
    assert left.exists() != is_made


def test_folders_of_a_server_of_files_are_channels(host: Host, server: FileServer) -> None:
    for name in ("d/train/a", "d/train/sub/b", "d/trainX", "d/test"):
        server.put(name, name)
    assert host.stage([f"{server.address}/d/tr", f"{server.address}/d/train/"])["seen"] == {
        "a": {"train/a": "d/train/a", "train/sub/b": "d/train/sub/b", "trainX": "d/trainX"},
        "b": {"a": "d/train/a", "sub/b": "d/train/sub/b"},
    }
    assert host.stage([server.address])["seen"]["a"]["d/test"] == "d/test"
    with pytest.raises(worker_client.FetchError, match="no object begins with"):
        host.stage([f"{server.address}/d/nothing"])


INDEX = """<a href="?C=N;O=D">Name</a> <a href="/d/?C=S">Size</a> <a href="../">up</a> <a href="a%20b.csv">a b.csv</a>
<a href="./c&amp;d.csv#top">c</a> <a href="./c&amp;d.csv">c</a> <a href="sub/">sub</a> <a href="/d/e.csv">e</a>
<a href="https://elsewhere.example/d/f.csv">f</a> <a href="/g.csv">g</a>"""


def test_a_folder_of_the_web_is_the_pages_that_its_listing_links_to(host: Host, web: WebServer) -> None:
    for name, text in (("index.html", INDEX), ("a b.csv", "1"), ("c&d.csv", "22"), ("e.csv", "333"), ("sub/h", "4444")):
        (web.folder / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        (web.folder / "d" / name).write_text(text)
        os.utime(web.folder / "d" / name, (1e9, 1e9))
    expected = {"a b.csv": "1", "c&d.csv": "22", "e.csv": "333", "sub/h": "4444"}
    for _time in range(2):
        told = host.stage([f"{web.address}/d/"])
        assert told["seen"]["a"] == expected
        assert (told["inputs"][0]["files"], told["inputs"][0]["bytes"]) == (4, 10)
    assert len([line for line in web.requests if line.startswith("GET") and "e.csv" in line]) == 1, web.requests


def test_a_page_that_is_written_twice_in_a_second_is_never_the_first_one(host: Host, web: WebServer) -> None:
    page = web.folder / "page"
    page.write_text("first")
    soon = page.stat().st_mtime_ns + 60 * 10**9  # however slow this machine is, the page is new when it is fetched
    os.utime(page, ns=(soon, soon))
    assert host.stage([f"{web.address}/page"])["seen"]["a"] == {"page": "first"}
    page.write_text("other")
    os.utime(page, ns=(soon, soon))
    assert host.stage([f"{web.address}/page"])["seen"]["a"] == {"page": "other"}


def test_how_long_a_page_takes_is_not_limited_as_long_as_it_comes(web: WebServer) -> None:
    """aiohttp's own limit is of all of it; here it is next to nothing, so only a limit of ours can let a page come."""
    (web.folder / "page").write_text("words")
    code = f"""
import aiohttp.client
aiohttp.client.DEFAULT_TIMEOUT = aiohttp.ClientTimeout(total=1e-6)
from jupyter_smx.agent.stores import fsspec_worker
from jupyter_smx.agent.stores import filesystems
words = filesystems._options("{web.address}/page")["client_kwargs"]
print(fsspec_worker.read_object("{web.address}/page"), words["timeout"].sock_read)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "words 300.0\n"
