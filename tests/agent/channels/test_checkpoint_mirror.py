"""A folder that is mirrored elsewhere: files that are new, changed, gone, incomplete, in the way, or unreadable."""

from __future__ import annotations

import errno
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.agent import errors
from jupyter_smx.agent.channels import checkpoint
from jupyter_smx.agent.channels.checkpoint import SETTLE_SECONDS, SETTLE_TIMEOUT, CheckpointError, FolderStore, Mirror
from jupyter_smx.agent.errors import UNREACHABLE
from jupyter_smx.agent.system.files import safe_open

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG_AGO = 1_000.0


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write(folder: Path, name: str, text: str, at: float | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at is not None:
        os.utime(path, (at, at))
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "user" / "kept"


@pytest.fixture
def mirror(here: Path, there: Path) -> Mirror:
    made = Mirror(str(here), FolderStore(str(there), "algo-1"))
    made.restore()
    return made


def test_the_place_is_made_and_what_lies_there_is_restored_with_its_times(here: Path, there: Path) -> None:
    write(there, "deep/er/model.pt", "old", LONG_AGO)
    known = Mirror(str(here), FolderStore(str(there), "algo-1")).restore()
    assert files(here) == {"deep/er/model.pt": "old"}
    assert (here / "deep/er/model.pt").stat().st_mtime == LONG_AGO
    assert list(known) == ["deep/er/model.pt"]


def test_what_was_restored_is_known_and_not_written_again(here: Path, there: Path) -> None:
    path = write(there, "a", "old", LONG_AGO)
    other = Mirror(str(here), FolderStore(str(there), "algo-1"))
    known = other.restore()
    before = path.stat().st_ino
    Mirror(str(here), FolderStore(str(there), "algo-1"), known).sync(time.time())
    assert path.stat().st_ino == before


def test_new_changed_and_deleted_files_follow(mirror: Mirror, here: Path, there: Path) -> None:
    write(here, "a", "1", LONG_AGO)
    write(here, "sub/b", "2", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"a": "1", "sub/b": "2"}
    write(here, "a", "changed", LONG_AGO + 5)
    (here / "sub/b").unlink()
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"a": "changed"}
    assert not (there / "sub").exists()  # an object store has no empty folders


def test_what_others_put_there_is_left_alone(mirror: Mirror, here: Path, there: Path) -> None:
    write(there, "others", "x")
    write(here, "mine", "y", LONG_AGO)
    mirror.sync(2 * LONG_AGO, everything=True)
    assert files(there) == {"others": "x", "mine": "y"}
    assert files(here) == {"mine": "y"}


def test_a_file_that_is_being_written_waits_until_it_has_settled(mirror: Mirror, here: Path, there: Path) -> None:
    now = time.time()
    write(here, "model.pt", "half", now)
    mirror.sync(now + SETTLE_SECONDS / 2)
    assert files(there) == {}
    write(here, "model.pt", "half and half", now + SETTLE_SECONDS)
    mirror.sync(now + 1.5 * SETTLE_SECONDS)
    assert files(there) == {}
    mirror.sync(now + 2.5 * SETTLE_SECONDS)
    assert files(there) == {"model.pt": "half and half"}


def test_a_log_that_never_settles_is_kept_now_and_then(mirror: Mirror, here: Path, there: Path) -> None:
    now = time.time()
    for second in range(int(SETTLE_TIMEOUT) + 1):
        assert files(there) == {}
        write(here, "events.log", f"line {second}", now + second)
        mirror.sync(now + second)
    assert files(there) == {"events.log": f"line {int(SETTLE_TIMEOUT)}"}


def test_at_the_end_nothing_waits(mirror: Mirror, here: Path, there: Path) -> None:
    write(here, "model.pt", "last words", time.time())
    mirror.sync(time.time(), everything=True)
    assert files(there) == {"model.pt": "last words"}


def test_a_file_that_changes_while_it_is_copied_is_not_kept_then(
    mirror: Mirror, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(here, "model.pt", "first", LONG_AGO)
    real = safe_open.copy

    def copy_slowly(source: str, target: str) -> None:
        real(source, target)
        write(here, "model.pt", "second", LONG_AGO + 1)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.safe_open, "copy", copy_slowly)
        mirror.sync(2 * LONG_AGO)
    assert files(there) == {}
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"model.pt": path.read_text()} == {"model.pt": "second"}


def test_a_log_that_grows_during_each_copy_is_kept_now_and_then(
    mirror: Mirror, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    log = write(here, "events.log", "begin", now)
    copied = []
    real = safe_open.copy

    def copy_slowly(source: str, target: str) -> None:
        real(source, target)
        copied.append(log.read_text())
        write(here, "events.log", f"{copied[-1]} more")

    monkeypatch.setattr(checkpoint.safe_open, "copy", copy_slowly)
    for second in range(int(SETTLE_TIMEOUT)):
        mirror.sync(now + second)
        assert files(there) == {}
    mirror.sync(now + SETTLE_TIMEOUT)
    first = copied[-1]
    assert files(there) == {"events.log": first}
    for second in range(int(SETTLE_TIMEOUT) + 1):
        assert files(there) == {"events.log": first}
        mirror.sync(now + SETTLE_TIMEOUT + 1 + second)
    assert files(there) == {"events.log": copied[-1]} != {"events.log": first}


def test_a_copy_that_is_cut_short_leaves_the_old_file_and_is_not_restored(
    mirror: Mirror, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(here, "model.pt", "good", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    write(here, "model.pt", "better", LONG_AGO + 1)

    def die(_source: str, target: str) -> None:
        write(there, target.rpartition("/")[2], "bet")
        raise KeyboardInterrupt  # like a process that is killed: no cleanup

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.safe_open, "copy", die)
        with pytest.raises(KeyboardInterrupt):
            mirror.sync(2 * LONG_AGO)
    assert (there / "model.pt").read_text() == "good"
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    Mirror(str(fresh), FolderStore(str(there), "algo-2")).restore()  # another host neither uses nor removes it
    assert files(fresh) == {"model.pt": "good"}
    Mirror(str(fresh), FolderStore(str(there), "algo-1")).restore()  # the same host removes it
    assert files(there) == {"model.pt": "good"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_is_full_or_broken_keeps_no_half_of_a_file(
    mirror: Mirror, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write(here, "model.pt", "good", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    write(here, "model.pt", "better", LONG_AGO + 1)

    def fill(_source: str, target: str) -> None:
        write(there, target.rpartition("/")[2], "bet")
        raise OSError(number, os.strerror(number), target)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.safe_open, "copy", fill)
        mirror.sync(2 * LONG_AGO)
    assert files(there) == {"model.pt": "good"}
    assert mirror.errors == {"model.pt": f"model.pt could not be kept ({os.strerror(number)})"}
    mirror.sync(2 * LONG_AGO)
    assert (files(there), mirror.errors) == ({"model.pt": "better"}, {})


def test_hosts_share_the_place_and_the_last_one_that_writes_a_name_wins(tmp_path: Path, there: Path) -> None:
    mirrors = {}
    for host in ("algo-1", "algo-2"):
        folder = tmp_path / host
        folder.mkdir()
        mirrors[host] = folder, Mirror(str(folder), FolderStore(str(there), host))
    for host, (folder, mirror) in mirrors.items():
        write(folder, "model.pt", host, LONG_AGO)
        write(folder, f"rank-{host}.pt", host, LONG_AGO)
        mirror.sync(2 * LONG_AGO)
    assert files(there) == {"model.pt": "algo-2", "rank-algo-1.pt": "algo-1", "rank-algo-2.pt": "algo-2"}
    first, mirror = mirrors["algo-1"]
    (first / "rank-algo-1.pt").unlink()
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"model.pt": "algo-2", "rank-algo-2.pt": "algo-2"}


def test_a_link_to_a_file_is_kept_as_a_file_and_what_is_no_file_is_not(mirror: Mirror, here: Path, there: Path) -> None:
    write(here, "step-10/model.pt", "m", LONG_AGO)
    (here / "latest.pt").symlink_to("step-10/model.pt")
    (here / "loop").symlink_to(here)
    (here / "gone").symlink_to("nowhere")
    os.mkfifo(here / "pipe")
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"latest.pt": "m", "step-10/model.pt": "m"}
    assert mirror.errors == {}


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file(mirror: Mirror, here: Path, there: Path) -> None:
    write(here, "a", "file", LONG_AGO)
    write(here, "b/c", "inner", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    (here / "a").unlink()
    write(here, "a/inner", "now inside", LONG_AGO)
    shutil.rmtree(here / "b")
    write(here, "b", "now a file", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"a/inner": "now inside", "b": "now a file"}


def test_what_cannot_be_looked_at_counts_as_there(
    mirror: Mirror, here: Path, there: Path, blind: Callable[[], None]
) -> None:
    write(here, "safe/model.pt", "m", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    blind()
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"safe/model.pt": "m"}
    assert list(mirror.errors.values()) == [f"{here}/safe cannot be read"]


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch, here: Path) -> Callable[[], None]:
    """Return a function that makes a folder unreadable, even for root, which file modes do not restrict."""
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path) == str(here / "safe"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    return lambda: monkeypatch.setattr(os, "scandir", scandir)


def test_what_cannot_be_kept_is_said_and_tried_again(mirror: Mirror, here: Path, there: Path) -> None:
    shutil.rmtree(there)
    there.parent.joinpath("kept").write_text("a file in the place of the folder")
    write(here, "model.pt", "m", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    assert list(mirror.errors) == ["model.pt"]
    assert mirror.errors["model.pt"].startswith("model.pt could not be kept (")
    there.unlink()
    mirror.sync(2 * LONG_AGO)
    assert (files(there), mirror.errors) == ({"model.pt": "m"}, {})


def test_a_place_that_cannot_be_used_is_refused_by_name(here: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "kept"
    with pytest.raises(CheckpointError, match=f"checkpoint: {place} cannot be used"):
        Mirror(str(here), FolderStore(str(place), "algo-1")).restore()


names = st.sampled_from(["a", "b", "c/a", "c/b", "d/e/f"])
stories = st.lists(st.one_of(st.tuples(names, st.text("xyz", max_size=3)), st.tuples(names, st.none())), max_size=12)


@settings(max_examples=60, deadline=None)
@given(stories=st.lists(stories, min_size=1, max_size=4))
def test_whatever_a_job_does_in_the_end_both_folders_are_equal(
    stories: list[list[tuple[str, str | None]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("story")
    there, known = folder / "there", {}
    for number, story in enumerate(stories):
        here = folder / f"attempt-{number}"
        here.mkdir()
        mirror = Mirror(str(here), FolderStore(str(there), "algo-1"))
        known = mirror.restore()
        assert files(here) == files(there)
        mirror = Mirror(str(here), FolderStore(str(there), "algo-1"), known)
        for step, (name, text) in enumerate(story):
            if text is not None:
                write(here, name, text, LONG_AGO + 20 * number + step)
            else:
                (here / name).unlink(missing_ok=True)
            if step % 2:
                mirror.sync(2 * LONG_AGO)
        mirror.sync(time.time(), everything=True)
        assert files(here) == files(there)
        assert mirror.errors == {}


def test_the_last_checkpoint_goes_when_the_next_one_is_there_and_not_before(
    mirror: Mirror, here: Path, there: Path
) -> None:
    write(here, "step-1.pt", "1", LONG_AGO)
    mirror.sync(2 * LONG_AGO)
    write(here, "step-2.pt", "2", 3 * LONG_AGO)
    (here / "step-1.pt").unlink()
    mirror.sync(3 * LONG_AGO + SETTLE_SECONDS / 2)
    assert files(there) == {"step-1.pt": "1"}
    mirror.sync(3 * LONG_AGO + SETTLE_SECONDS)
    assert files(there) == {"step-2.pt": "2"}


def test_jobs_that_share_the_place_do_not_write_through_one_file(tmp_path: Path, there: Path) -> None:
    here = {job: tmp_path / job for job in "ab"}
    stores = {job: FolderStore(str(there), f"{job}-algo-1") for job in here}
    for job, folder in here.items():
        write(folder, f"{job}.pt", job * 3)
        stores[job].names()

    def meanwhile() -> bool:
        return stores["b"].put(str(here["b"] / "b.pt"), "b.pt", lambda: True)

    assert stores["a"].put(str(here["a"] / "a.pt"), "a.pt", meanwhile)
    assert files(there) == {"a.pt": "aaa", "b.pt": "bbb"}


def test_a_checkpoint_that_another_host_deletes_during_the_restore_is_not_missed(here: Path, there: Path) -> None:
    write(there, "a", "1")
    write(there, "b", "2")

    class Shared(FolderStore):
        def names(self) -> list[str]:
            found = super().names()
            (there / "a").unlink()
            return found

    assert list(Mirror(str(here), Shared(str(there), "x")).restore()) == ["b"]


def test_a_folder_of_somebody_else_is_not_deleted_for_a_file_of_its_name(here: Path, there: Path) -> None:
    write(there, "plots/mine.png", "precious")
    write(here, "plots", "a file", LONG_AGO)
    mirror = Mirror(str(here), FolderStore(str(there), "job", is_ours=False))
    mirror.sync(2 * LONG_AGO)
    assert files(there) == {"plots/mine.png": "precious"}, "and nothing beside it"
    assert list(mirror.errors) == ["plots"]


def test_what_may_be_there_since_only_the_answer_was_lost_goes_when_the_job_removes_it(here: Path, there: Path) -> None:
    class Mute(FolderStore):
        is_mute = True

        def upload(self, rows: list[checkpoint.UploadRow]) -> list[errors.FileResult]:
            came = super().upload(rows)
            return [errors.FileResult(UNREACHABLE, "no answer")] * len(came) if self.is_mute else came

    store = Mute(str(there), "algo-1")
    mirror = Mirror(str(here), store)
    mirror.restore()
    first = write(here, "first", "1", LONG_AGO)
    write(here, "stays", "1", LONG_AGO)
    mirror.sync(LONG_AGO + 10)
    assert set(files(there)) == {"first", "stays"}
    assert mirror.is_unreachable()
    store.is_mute = False
    first.unlink()
    write(here, "second", "2", LONG_AGO)
    mirror.sync(LONG_AGO + 20)
    assert files(there) == {"second": "2", "stays": "1"}
    assert mirror.report()["errors"] == []
