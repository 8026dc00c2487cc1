"""Files that cannot be linked for a host are copied: once for a cluster, if there is room, while a host needs them."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.engines.machine import file_lock, host_folder, provide_files
from jupyter_smx.engines.machine.copy_workers import CopyWorkers
from jupyter_smx.engines.machine.host_folder import FILES_LOCK, RELEASED_MARKER, HostFolder
from jupyter_smx.engines.machine.provide_files import FileReader
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY = Path("/dev/shm")  # noqa: S108 - another file system than most have their folders on
INSIDE = "/run/smx/given"
STRANGER = FileReader(12345, 12345)
"""A user without the right to read files of mode 0600."""
Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil has it


@pytest.fixture
def hosts(tmp_path: Path) -> list[HostFolder]:
    folders = [HostFolder(tmp_path / "clusters" / "c" / f"algo-{number}") for number in (1, 2)]
    for folder in folders:
        (folder.path / "given").mkdir(parents=True)
    return folders


@pytest.fixture
def host(hosts: list[HostFolder]) -> HostFolder:
    return hosts[0]


def private(path: Path, size: int = 2000) -> Path:
    path.write_bytes(os.urandom(size))
    path.chmod(0o600)
    return path


def provide(host: HostFolder, *sources: Path, given_up: Callable[[], bool] = bool) -> list[Path]:
    found = provide_files.provide_files(host, [str(source) for source in sources], INSIDE, STRANGER, given_up)
    return [host.path / "given" / found[str(source)][len(INSIDE) + 1 :] for source in sources]


def free(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(provide_files.shutil, "disk_usage", lambda _path: Usage(10**9, 0, count))


def test_what_is_copied_is_copied_once_for_all_hosts_of_a_cluster(hosts: list[HostFolder], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    source = private(folder / "inner" / "private")
    (folder / "open").write_text("open")
    first, second = (provide(host, folder)[0] for host in hosts)
    assert not (first / "inner/private").samefile(source)
    assert (second / "inner/private").samefile(first / "inner/private")
    assert (second / "open").samefile(folder / "open")
    private(source)
    assert provide(hosts[1], folder)[0].joinpath("inner/private").read_bytes() == source.read_bytes()


def test_what_has_no_room_is_refused_before_it_is_copied_with_both_numbers_and_the_cure(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 1000)
    monkeypatch.setattr(provide_files._ProvidedFiles, "_copy", lambda *_: pytest.fail("nothing is copied"))
    with pytest.raises(RefusedError, match=r"2\.0 KiB must be copied, but only 900 B are free") as told:
        provide(host, private(tmp_path / "large"))
    assert (told.value.field, told.value.value, told.value.transient) == ("source", str(tmp_path / "large"), False)
    assert "JUPYTER_SMX_DATA_DIR" in told.value.cure
    assert list((host.path / "given").iterdir()) == []


def test_what_is_linked_needs_no_room(hosts: list[HostFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").write_bytes(b"x" * 2000)
    copied = private(tmp_path / "private")
    provide(hosts[0], copied)
    free(monkeypatch, 0)
    [second] = provide(hosts[1], copied)
    provide(hosts[1], copied, tmp_path / "open")
    assert second.read_bytes() == copied.read_bytes()


def test_copies_that_no_job_needs_go_before_others_are_refused(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, wanted = private(tmp_path / "idle"), private(tmp_path / "wanted")
    [old] = provide(host, idle)
    monkeypatch.setattr(provide_files.shutil, "disk_usage", lambda _path: Usage(1, 1, 1000 if old.exists() else 3000))
    [new] = provide(host, wanted)
    assert new.exists()
    assert not old.exists()


def test_a_job_whose_copies_found_no_room_although_others_went_is_tried_once_more(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, wanted = private(tmp_path / "idle"), private(tmp_path / "wanted")
    provide(host, idle)
    free(monkeypatch, 1000)  # because another host has a second name of it, for example
    with pytest.raises(RefusedError) as first:
        provide(host, wanted)
    with pytest.raises(RefusedError) as second:
        provide(host, wanted)
    assert (first.value.transient, second.value.transient) == (True, False)


def test_copies_are_kept_only_while_as_much_room_is_left(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = provide(host, private(tmp_path / "first"))
    [second] = provide(host, private(tmp_path / "second"))
    free(monkeypatch, 3000)
    provide(host, private(tmp_path / "third", 1))
    assert (first.exists(), second.exists()) == (False, True)


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def test_what_lies_on_another_disk_is_counted_and_copied(
    hosts: list[HostFolder], other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = other_disk / "data"
    source.write_bytes(b"x" * 2000)
    with monkeypatch.context() as patch:
        free(patch, 1000)
        with pytest.raises(RefusedError, match=r"2\.0 KiB"):
            provide(hosts[0], source)
    first, second = (provide(host, source)[0] for host in hosts)
    assert first.read_bytes() == source.read_bytes()
    assert first.samefile(second)


def test_a_copy_ends_when_its_cluster_is_released_and_leaves_nothing(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provide_files, "_CHUNK_SIZE", 100)
    pieces = iter(range(10))

    def released_meanwhile() -> bool:
        if next(pieces) == 5:
            (host.path.parent / RELEASED_MARKER).touch()
        return False

    with pytest.raises(UnavailableError, match="was released"):
        provide(host, private(tmp_path / "large"), given_up=released_meanwhile)
    assert next(pieces) == 6
    assert list((host.path / "given").iterdir()) == []
    with pytest.raises(UnavailableError, match="was released"):
        provide(host, tmp_path / "large")


def test_a_release_takes_what_is_brought_when_the_copy_has_ended(
    host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waits = threading.Event(), threading.Event()
    monkeypatch.setattr(file_lock.time, "sleep", lambda _seconds: waits.set())

    def in_the_middle() -> bool:
        if any((host.path / "given").iterdir()):
            begun.set()
            assert waits.wait(20)
        return False

    with ThreadPoolExecutor(2) as threads:
        copy = threads.submit(provide, host, private(tmp_path / "large"), given_up=in_the_middle)
        assert begun.wait(20)
        (host.path.parent / RELEASED_MARKER).touch()
        sweep = threads.submit(host.remove_files)
        with pytest.raises(UnavailableError, match="was released"):
            copy.result(20)
        assert sweep.result(20) == ""
    assert not (host.path / "given").exists()


def test_a_release_waits_for_no_copy_for_ever(host: HostFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_folder, "_COPY_TIMEOUT", 0.0)
    with file_lock.acquire(host.path.parent / FILES_LOCK, bool) as held:
        assert held
        assert host.remove_files() == ""
    assert not (host.path / "given").exists()


class Slow:
    """Replaces a copy by a wait for ``go``; the event ``at(name)`` is set when the copy for that host begins."""

    def __init__(self) -> None:
        self.entered: dict[str, threading.Event] = {}
        self.left: list[str] = []
        self.go = threading.Event()
        self.given_up: list[bool] = []

    def __call__(self, folder: HostFolder, _sources: Any, _inside: str, _reader: Any, given_up: Any) -> dict[str, str]:
        name = f"{folder.path.parent.name}/{folder.path.name}"
        self.at(name).set()
        assert self.go.wait(20)
        self.given_up.append(given_up())
        self.left.append(name)
        return {}

    def at(self, name: str) -> threading.Event:
        return self.entered.setdefault(name, threading.Event())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(provide_files, "provide_files", slow)
    return slow


async def begun(slow: Slow, name: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        assert await asyncio.get_running_loop().run_in_executor(thread, slow.at(name).wait, 20)


async def test_hosts_of_a_cluster_take_turns_and_other_clusters_do_not_wait_for_them(slow: Slow) -> None:
    carrier = CopyWorkers()
    names = ("a/1", "a/2", "b/1")
    tasks = [asyncio.create_task(carrier.provide_files(HostFolder(Path(name)), [], INSIDE, STRANGER)) for name in names]
    await begun(slow, "a/1")
    await begun(slow, "b/1")
    assert not slow.at("a/2").is_set()
    slow.go.set()
    await asyncio.gather(*tasks)
    assert {*slow.left} == {*names}


async def test_copies_take_no_thread_that_anybody_else_needs(slow: Slow) -> None:
    carrier = CopyWorkers(at_once=2)
    tasks = [
        asyncio.create_task(carrier.provide_files(HostFolder(Path(f"{number}/1")), [], INSIDE, STRANGER))
        for number in range(8)
    ]
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    await begun(slow, "0/1")
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "answered"), 20) == "answered"
    slow.go.set()
    await asyncio.gather(*tasks)


async def test_a_copy_that_nobody_waits_for_is_told(slow: Slow) -> None:
    task = asyncio.create_task(CopyWorkers().provide_files(HostFolder(Path("a/1")), [], INSIDE, STRANGER))
    await begun(slow, "a/1")
    task.cancel()
    await asyncio.wait({task})
    slow.go.set()
    await eventually(lambda: slow.given_up == [True], "it is told")
