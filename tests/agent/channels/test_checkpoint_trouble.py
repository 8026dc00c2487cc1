"""A place for checkpoints that is away, full, or refuses: what is newest is never lost, and what is away comes back."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.agent.channels import object_store
from jupyter_smx.agent.channels.checkpoint import Mirror, UploadRow
from jupyter_smx.agent.channels.object_store import usable_names
from jupyter_smx.agent.errors import CHANGED, DONE, FULL, REFUSED, UNREACHABLE, FileResult
from jupyter_smx.agent.job import mirror_task
from jupyter_smx.agent.stores import worker_client
from jupyter_smx.agent.system.processes.event_loop import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_AGO = 1_000.0
NOW = 2 * LONG_AGO


class Far:
    """A place that answers as it is told to; ``how`` is what becomes of a file that is put there, by name or of all."""

    is_flat = True

    def __init__(self, patience: float = 0.0) -> None:
        self.patience = patience
        self.has: dict[str, str] = {}
        self.how: dict[str, str] = {}
        self.all = DONE
        self.log: list[str] = []

    def names(self) -> list[str]:
        return sorted(self.has)

    def download(self, rows: list[tuple[str, str]]) -> list[bool]:
        for name, path in rows:
            Path(path).write_text(self.has[name])
        return [True] * len(rows)

    def upload(self, rows: list[UploadRow]) -> list[FileResult]:
        found = []
        for path, name, _stamp in rows:
            how = self.how.get(name, self.all)
            if how == DONE:
                self.has[name] = Path(path).read_text()
                self.log.append(f"put {name}")
            found.append(FileResult(how, "" if how == DONE else f"it is {how}"))
        return found

    def delete(self, names: list[str]) -> list[FileResult]:
        if self.all == UNREACHABLE:
            return [FileResult(UNREACHABLE, "it is away")] * len(names)
        for name in names:
            self.has.pop(name, None)
            self.log.append(f"drop {name}")
        return [FileResult(DONE)] * len(names)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, at: float = LONG_AGO) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name} of {at}")
    os.utime(path, (at, at))


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def mirror(here: Path, far: Far) -> Mirror:
    """Give the mirror of a job that has saved its first step, and then its second one in the place of the first."""
    made = Mirror(str(here), far)
    write(here, "step-1")
    made.sync(NOW)
    assert far.has == {"step-1": "step-1 of 1000.0"}
    (here / "step-1").unlink()
    write(here, "step-2")
    return made


@pytest.mark.parametrize("how", [UNREACHABLE, REFUSED, CHANGED])
def test_the_last_checkpoint_stays_for_as_long_as_the_next_one_cannot_come(mirror: Mirror, far: Far, how: str) -> None:
    far.how["step-2"] = how
    for _time in range(3):
        mirror.sync(NOW)
        assert list(far.has) == ["step-1"]
    assert list(mirror.errors) == ([] if how == CHANGED else ["step-2"])
    far.how.clear()
    mirror.sync(NOW)
    assert (list(far.has), mirror.errors) == (["step-2"], {})
    assert far.log == ["put step-1", "put step-2", "drop step-1"]


def test_also_at_the_end_of_the_job(mirror: Mirror, far: Far) -> None:
    far.all = REFUSED
    told = mirror_task.sync_final(mirror)
    assert list(far.has) == ["step-1"]
    assert told == {"errors": ["step-2 could not be kept (it is refused)"], "notes": []}


def test_where_there_is_no_room_what_the_job_deleted_makes_some(mirror: Mirror, far: Far) -> None:
    far.how["step-2"] = FULL
    mirror.sync(NOW)
    assert (list(far.has), list(mirror.errors)) == ([], ["step-2"])
    far.how.clear()
    mirror.sync(NOW)
    assert (list(far.has), mirror.errors) == (["step-2"], {})


@pytest.mark.parametrize(("before", "after"), [("a", "a/inner"), ("b/inner", "b")])
def test_what_has_the_place_of_the_new_one_goes_where_that_is_refused(
    here: Path, far: Far, before: str, after: str
) -> None:
    mirror = Mirror(str(here), far)
    write(here, before)
    mirror.sync(NOW)
    (here / before).unlink()
    if after == "b":
        (here / "b").rmdir()
    write(here, after)
    far.how[after] = REFUSED
    mirror.sync(NOW)
    assert far.has == {}
    far.how.clear()
    mirror.sync(NOW)
    assert list(far.has) == [after]


def test_where_both_can_be_at_once_the_new_one_comes_first(here: Path, far: Far) -> None:
    mirror = Mirror(str(here), far)
    write(here, "a")
    mirror.sync(NOW)
    (here / "a").unlink()
    write(here, "a/inner")
    mirror.sync(NOW)
    assert far.log == ["put a", "put a/inner", "drop a"]


def test_times_in_which_the_place_is_away_are_told_when_it_is_back(mirror: Mirror, far: Far) -> None:
    far.all = UNREACHABLE
    mirror.sync(NOW)
    mirror.sync(NOW + 30)
    assert mirror.is_unreachable()
    assert mirror.report()["notes"] == []
    far.all = DONE
    mirror.sync(NOW + 61)
    assert not mirror.is_unreachable()
    (note,) = mirror.report()["notes"]
    assert note == "the store did not answer between 00:33:20 and 00:34:21 UTC (it is away); all files are saved since."
    mirror.sync(NOW + 62)
    assert mirror.report() == {"errors": [], "notes": [note]}


def test_nobody_is_told_that_all_is_kept_while_something_is_refused(mirror: Mirror, far: Far) -> None:
    far.all = UNREACHABLE
    mirror.sync(NOW)
    far.all = REFUSED
    mirror.sync(NOW + 61)
    told = mirror.report()
    assert told["notes"] == ["the store did not answer between 00:33:20 and 00:34:21 UTC (it is away)."]
    assert all("it is refused" in error for error in told["errors"])
    assert told["errors"]


def test_a_store_that_is_away_is_asked_once_for_any_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Silent:
        def __init__(self, _means: worker_client.WorkerOptions, _what: str) -> None:
            pass

        def request(self, _url: str, _do: str, *, top: str, rows: list[object]) -> list[list[str]]:
            asked.append(len(rows))
            return [[UNREACHABLE, f"{top} is away"]] * len(rows)

    monkeypatch.setattr(object_store.worker_client, "FsspecWorker", Silent)
    store = object_store.ObjectStore("s3://bucket/d", "job-algo-1", worker_client.WorkerOptions(), "checkpoint")
    found = store.delete([f"step-{number}" for number in range(1000)])
    assert found == [FileResult(UNREACHABLE, "s3://bucket/d is away")] * 1000
    assert len(asked) == 1


def test_at_the_end_a_place_that_is_away_is_waited_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(patience=60.0)
    far.all = UNREACHABLE
    write(here, "last")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            far.all = DONE

    monkeypatch.setattr(mirror_task.time, "sleep", sleep)
    told = mirror_task.sync_final(Mirror(str(here), far))
    assert (list(far.has), told["errors"], len(told["notes"]), len(pauses)) == (["last"], [], 1, 3)


def test_and_not_for_ever(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(patience=60.0)
    far.all = UNREACHABLE
    write(here, "last")
    clock = [time.monotonic()]
    monkeypatch.setattr(mirror_task.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(mirror_task.time, "sleep", lambda seconds: clock.append(clock.pop() + 10 * seconds))
    told = mirror_task.sync_final(Mirror(str(here), far))
    assert told == {"errors": ["last could not be kept (it is away)"], "notes": []}


def test_who_is_refused_is_not_waited_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(patience=60.0)
    far.all = REFUSED
    write(here, "last")
    monkeypatch.setattr(mirror_task.time, "sleep", lambda _seconds: pytest.fail("it waits"))
    assert mirror_task.sync_final(Mirror(str(here), far))["errors"] == ["last could not be kept (it is refused)"]


class Moments:
    """A loop whose timers are due when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Timer]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append((seconds, Timer(call)))
        return self.timers[-1][1]


def test_an_errand_that_ends_early_is_followed_by_another_one_until_the_job_is_over(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Callable[[dict[str, list[str]] | None, str], None]] = []
    monkeypatch.setattr(mirror_task.forked_task, "ForkedTask", lambda _loop, _work, done: begun.append(done))
    loop, trouble = Moments(), list[list[str]]()
    one = mirror_task.MirrorTask(loop, Far(), str(here))  # type: ignore[arg-type]
    one.start({})
    for count in range(1, 6):
        begun[-1](None, "it was killed before it was done")
        assert (len(begun), len(loop.timers)) == (count, count)
        call = loop.timers[-1][1].call
        assert call is not None
        if count < 5:
            call()
    assert [seconds for seconds, _timer in loop.timers] == [5, 10, 20, 30, 30]
    one.finish(trouble.append)
    assert loop.timers[-1][1].call is None, "the next job's folder is not looked at"
    assert (len(begun), trouble) == (6, [])
    begun[-1]({"errors": [], "notes": []}, "")
    assert trouble == [[]]


def test_a_package_that_nobody_has_is_not_waited_for() -> None:
    store = object_store.ObjectStore("s3://bucket/d", "job-algo-1", worker_client.WorkerOptions(), "output plots")
    (found,) = store.delete(["a"])
    assert found.status == REFUSED
    assert "output plots: s3://bucket/d needs fsspec, but" in found.message


def test_a_machine_that_has_too_much_to_do_uses_up_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tmp_path / "courier.py"
    entry.write_text('import sys; sys.stdin.readline(); print(\'{"result": [["done"]]}\')')
    store = object_store.ObjectStore(
        "s3://bucket/d", "w", worker_client.WorkerOptions((sys.executable,), str(entry)), "checkpoint"
    )

    def busy(*_words: object, **_more: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", busy)
        (found,) = store.delete(["a"])
    assert (found.status, found.message) == (
        UNREACHABLE,
        "checkpoint: no process could be started (Resource temporarily unavailable)",
    )
    assert store.delete(["a"]) == [FileResult(DONE)]
    store._worker.close()


def test_what_a_courier_was_saying_when_it_was_killed_is_no_answer(tmp_path: Path) -> None:
    entry = tmp_path / "courier.py"
    entry.write_text("import sys; sys.stdin.readline(); sys.stdout.write('{\"result\": [[')")
    courier = worker_client.FsspecWorker(worker_client.WorkerOptions((sys.executable,), str(entry)), "checkpoint")
    with (
        contextlib.closing(courier),
        pytest.raises(worker_client.FetchError, match="the process that reads it has ended"),
    ):
        courier.request("s3://bucket/d", "keep", top="s3://bucket/d", rows=[])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b/c"], ["a", "b/c"]),
        (["a", "a/b", "a/b/c"], ["a/b/c"]),
        (["", "/x", "x//y", "../x", "x/./y", "x/..", "nul\0"], []),
        (["..x", "x.", "ab", "a"], ["..x", "x.", "ab", "a"]),
    ],
)
def test_objects_that_cannot_be_files_of_one_folder_are_left_alone(names: list[str], expected: list[str]) -> None:
    assert usable_names(names) == expected


names = st.sampled_from(["a", "b", "c/a", "c/b"])
outcomes = st.sampled_from([DONE, UNREACHABLE, REFUSED, CHANGED])
steps = st.lists(st.tuples(names, st.booleans(), outcomes), max_size=14)


@settings(max_examples=80, deadline=None)
@given(story=steps)
def test_nothing_is_deleted_before_all_that_is_newer_is_there(
    story: list[tuple[str, bool, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = tmp_path_factory.mktemp("story")

    class Watched(Far):
        def delete(self, names: list[str]) -> list[FileResult]:
            assert {name: (here / name).read_text() for name in local()}.items() <= self.has.items()
            return super().delete(names)

    def local() -> list[str]:
        return [path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()]

    far = Watched()
    mirror = Mirror(str(here), far)
    for number, (name, saves, how) in enumerate(story):
        far.all = how
        if saves:
            write(here, name, LONG_AGO + number)
        else:
            (here / name).unlink(missing_ok=True)
        mirror.sync(NOW)
    far.all = DONE
    mirror.sync(NOW)
    assert far.has == {name: (here / name).read_text() for name in local()}
    assert mirror.errors == {}
