"""What a host keeps of inputs: each content once, never another one than the source has, and not without bounds."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.host.provided_files import ProvidedFiles
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.stores.input_cache import InputCache
from jupyter_smx.agent.stores.listing import ListingError, list_sources

if TYPE_CHECKING:
    from collections.abc import Callable

YEAR = 365 * 86_400
MUCH = 1 << 30


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Host:
    """A store, and what a host remembers between its jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: digest.DigestCache = {}

    def store(self, limit: int = MUCH) -> InputCache:
        return InputCache(str(self.folder), self.known, limit)

    def take(self, source: Path, limit: int = MUCH) -> tuple[str, list[str]]:
        """Take a folder in as a job does; gives the key of the tree, and the names of what was copied."""
        pairs = [(name, str(source / name)) for name in (names(source))]
        store = self.store(limit)
        with store.lock():
            key = store.add_files(list_sources(pairs, time.time())).key
        digest.remember_digests(self.known, store.fresh)
        return key, sorted(store.copied)

    def tree(self, key: str) -> dict[str, str]:
        top = self.folder / "trees" / key / "data"
        return {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}

    def contents(self) -> list[str]:
        return names(self.folder / "contents")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "store")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(tmp_path / "data" / "a", "alpha")
    write(tmp_path / "data" / "deep" / "b", "beta")
    return tmp_path / "data"


def write(path: Path, text: str, age: float = YEAR) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))


BOTH = pytest.mark.parametrize("limit", [MUCH, 0], ids=["contents are read", "sources are compared"])


@BOTH
def test_what_is_here_is_not_copied_again(host: Host, source: Path, limit: int) -> None:
    first, copied = host.take(source, limit)
    assert copied == ["a", "deep/b"]
    assert host.tree(first) == {"a": "alpha", "deep/b": "beta"}
    assert host.take(source, limit) == (first, [])


@BOTH
def test_of_a_folder_that_changed_only_what_changed_is_copied(host: Host, source: Path, limit: int) -> None:
    first, _copied = host.take(source, limit)
    write(source / "deep" / "b", "gamma", YEAR / 2)
    write(source / "c", "new", YEAR / 2)
    second, copied = host.take(source, limit)
    assert copied == ["c", "deep/b"]
    assert host.tree(second) == {"a": "alpha", "c": "new", "deep/b": "gamma"}
    assert host.tree(first) == {"a": "alpha", "deep/b": "beta"}, "what another job may still have"
    shared = {(host.folder / "trees" / key / "data" / "a").stat().st_ino for key in (first, second)}
    assert len(shared) == 1


def test_the_same_bytes_from_elsewhere_are_kept_once(host: Host, source: Path, tmp_path: Path) -> None:
    first, _copied = host.take(source)
    write(tmp_path / "moved" / "a", "alpha", 3 * YEAR)
    write(tmp_path / "moved" / "deep" / "b", "beta")
    second, _copied = host.take(tmp_path / "moved")
    assert (second, len(host.contents())) == (first, 2)


@BOTH
def test_what_a_controller_sent_takes_no_room_twice(host: Host, limit: int) -> None:
    item = provide(host, b"sent", 0.0)
    key, copied = host.take(item, limit)
    assert copied == []
    assert host.tree(key) == {"a": "sent", "b": "sent"}
    inodes = {path.stat().st_ino for path in item.iterdir()}
    assert {path.stat().st_ino for path in (host.folder / "contents").iterdir()} == inodes
    assert host.take(item, limit) == (key, [])
    with host.store().lock():
        host.store().evict_all_except(set())
    assert host.take(item, limit) == (key, [])


@BOTH
def test_what_a_controller_sent_is_copied_where_its_file_was_deleted_since_the_listing(
    host: Host, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = provide(host, b"sent", YEAR)
    load = InputCache._load_provided

    def load_and_delete(cache: InputCache) -> None:
        load(cache)
        shutil.rmtree(host.folder / "provided" / "files")

    monkeypatch.setattr(InputCache, "_load_provided", load_and_delete)
    key, _copied = host.take(item, limit)
    assert host.tree(key) == {"a": "sent", "b": "sent"}


@pytest.mark.parametrize("refusal", [errno.EXDEV, errno.EPERM])
def test_what_a_controller_sent_is_copied_where_the_disk_has_no_links(
    host: Host, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    item, link = provide(host, b"sent", YEAR), os.link

    def refuse(source: str, target: str) -> None:
        if "provided" in source:
            raise OSError(refusal, os.strerror(refusal))
        link(source, target)

    monkeypatch.setattr(os, "link", refuse)
    key, copied = host.take(item)
    assert (host.tree(key), len(copied)) == ({"a": "sent", "b": "sent"}, 2)


def test_what_a_controller_sent_is_the_same_input_as_a_copy_of_it(host: Host, tmp_path: Path) -> None:
    key, _copied = host.take(provide(host, b"sent", YEAR))
    for name in ("a", "b"):
        write(tmp_path / "own" / name, "sent")
        (tmp_path / "own" / name).chmod(0o444)
    assert host.take(tmp_path / "own") == (key, ["a", "b"])


def provide(host: Host, data: bytes, age: float) -> Path:
    """Send a folder with two equal files to a host, and give its place there."""
    sent = ProvidedFiles(str(host.folder / "provided"), "")
    sha256 = hashlib.sha256(data).hexdigest()
    sent.put(sha256, 0, len(data), data)
    moment = int((time.time() - age) * 1e9)
    entry = {"kind": "file", "sha256": sha256, "target": "", "executable": False, "mtime_ns": moment}
    folder = {"path": "", "kind": "folder", "sha256": "", "target": "", "executable": False, "mtime_ns": moment}
    sent.place("0" * 64, "data", [folder, *({"path": name, **entry} for name in ("a", "b"))])  # type: ignore[list-item]
    return host.folder / "provided" / "items" / ("0" * 64) / "data"


def test_equal_files_of_a_channel_are_files_of_their_own(host: Host, source: Path) -> None:
    write(source / "deep" / "a", "alpha")
    (source / "deep" / "a").chmod(0o640)
    (source / "a").chmod(0o640)
    key, _copied = host.take(source)
    found = [host.folder / "trees" / key / "data" / name for name in ("a", "deep/a")]
    assert len({path.stat().st_ino for path in found}) == 2, "cp -a would make one file of them"
    assert len({(path.read_text(), path.stat().st_mode, path.stat().st_mtime_ns) for path in found}) == 1
    assert len(host.contents()) == 2


def test_a_content_that_can_have_no_more_names_is_copied(
    host: Host, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), source, None, target)

    monkeypatch.setattr(os, "link", refuse)
    key, _copied = host.take(source)
    assert host.tree(key) == {"a": "alpha", "deep/b": "beta"}
    assert host.take(source) == (key, [])


def test_a_file_that_was_only_touched_is_not_copied(host: Host, source: Path) -> None:
    first, _copied = host.take(source)
    os.utime(source / "a", (time.time() - 60, time.time() - 60))
    assert host.take(source) == (first, [])


@BOTH
def test_what_was_just_written_is_never_believed(host: Host, source: Path, limit: int) -> None:
    """Within a tick of its file system a file may change and keep its time."""
    write(source / "a", "first", 0)
    before = (source / "a").stat()
    host.take(source, limit)
    (source / "a").write_text("other")
    os.utime(source / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    key, copied = host.take(source, limit)
    assert copied == ["a"]
    assert host.tree(key)["a"] == "other"


@BOTH
def test_a_file_that_changes_while_it_is_copied_is_read_again(
    host: Host, source: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_same, acts = InputCache._is_same, [lambda: write(source / "a", "other", YEAR / 2)]

    def change(store: InputCache, item: Any) -> bool:
        if acts and item.name == "a":
            acts.pop()()
        return is_same(store, item)

    monkeypatch.setattr(InputCache, "_is_same", change)
    host.take(source, limit)
    key, copied = host.take(source, limit)
    assert (host.tree(key)["a"], copied) == ("other", ["a"])
    assert host.take(source, limit) == (key, [])


def test_modes_and_empty_folders_are_those_of_the_source(host: Host, source: Path) -> None:
    (source / "a").chmod(0o750)
    (source / "empty" / "er").mkdir(parents=True)
    key, _copied = host.take(source)
    top = host.folder / "trees" / key / "data"
    assert (top / "a").stat().st_mode & 0o7777 == 0o750
    assert (top / "empty" / "er").is_dir()
    (source / "a").chmod(0o640)
    other, copied = host.take(source)
    assert copied == ["a"]
    assert (host.folder / "trees" / other / "data" / "a").stat().st_mode & 0o7777 == 0o640


def test_links_are_followed_and_a_circle_is_refused(host: Host, source: Path) -> None:
    (source / "again").symlink_to("deep")
    key, _copied = host.take(source)
    assert host.tree(key) == {"a": "alpha", "again/b": "beta", "deep/b": "beta"}
    (source / "deep" / "up").symlink_to("..")
    with pytest.raises(ListingError, match="links to a folder that contains it"):
        host.take(source)


def test_what_is_no_file_is_refused(host: Host, source: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(ListingError, match=r"pipe' is neither a file nor a folder"):
        host.take(source)


def test_what_was_not_used_for_longest_goes_when_it_is_more_than_half_of_the_room(host: Host, source: Path) -> None:
    keys = []
    for text in ("one", "two", "tri"):
        write(source / "a", text * 10)
        keys.append(host.take(source)[0])
        os.utime(host.folder / "trees" / keys[-1], (len(keys), len(keys)))
    size = len("one" * 10 + "beta")
    host.store().prune(lambda: size)  # with what is kept there would be room for four
    assert (names(host.folder / "trees")) == sorted(keys[1:])
    assert len(host.contents()) == 4
    host.store().empty_trash()
    assert len(host.contents()) == 3, "b, and two of a"
    assert host.tree(keys[2]) == {"a": "tri" * 10, "deep/b": "beta"}
    assert not host.store().has_trash()


def test_a_host_without_room_gives_back_what_is_in_the_trash_as_well(host: Host, source: Path) -> None:
    kept, _copied = host.take(source)
    write(source / "a", "other")
    host.take(source)
    store = host.store()
    os.utime(host.folder / "trees" / kept, (1, 1))
    store.prune(lambda: 0)
    (host.folder / "parts" / "half").write_text("of an object")
    store.evict_all_except(set())
    assert [str(path) for path in host.folder.rglob("*") if path.is_file() and path.name != "lock"] == []


@pytest.fixture(params=["it is moved away", "there is no room for another name"])
def forget_half(host: Host, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give what lets a host without room be killed when one file of a tree is gone: nothing is tidied up."""
    rename = os.rename

    def die(path: str) -> None:
        next(one for one in Path(path).rglob("*") if one.is_file() and one.name != "bytes").unlink()
        raise KeyboardInterrupt

    def refuse(source: str, target: str) -> None:
        if "/trash/" in target and request.param != "it is moved away":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source, None, target)
        rename(source, target)

    def forget() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", die)
            patch.setattr(os, "rename", refuse)
            with pytest.raises(KeyboardInterrupt):
                host.store().evict_all_except(set())

    return forget


def test_a_tree_of_which_a_part_was_deleted_is_nobodys_channel(
    host: Host, source: Path, forget_half: Callable[[], None]
) -> None:
    first, _copied = host.take(source)
    forget_half()
    key, _copied = host.take(source)
    assert (key, host.tree(key)) == (first, {"a": "alpha", "deep/b": "beta"})


def test_a_tree_of_which_a_part_was_deleted_goes_when_the_job_is_over(
    host: Host, source: Path, forget_half: Callable[[], None]
) -> None:
    host.take(source)
    forget_half()
    (host.folder / "trees" / "emptied").mkdir()
    host.store().prune()
    assert names(host.folder / "trees") == []
    host.store().empty_trash()
    assert not host.store().has_trash()


def test_what_is_needed_again_before_the_trash_is_emptied_may_be_thrown_away_again(host: Host, source: Path) -> None:
    for _ in range(2):
        host.take(source)
        host.store().prune(lambda: 0)
    assert names(host.folder / "trees") == []
    host.store().empty_trash()
    assert not host.store().has_trash()


def test_what_a_job_that_takes_inputs_in_has_not_linked_yet_is_not_deleted(host: Host, source: Path) -> None:
    host.take(source)
    (host.folder / "contents" / "part-1").touch()
    with host.store().lock():
        host.store().empty_trash()
        assert "part-1" in host.contents()
    host.store().empty_trash()
    assert "part-1" not in host.contents()
