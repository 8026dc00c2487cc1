"""When a folder of code is packed again: after any change, and never else, in whatever process."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.request import source_dir
from jupyter_smx.kernel.request.payload import store_by_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.spec.job_spec import SourceDir

MINUTE = 60 * 10**9
IN_A_PROCESS = """
import sys, time
from pathlib import Path
from jupyter_smx.kernel.request import source_dir
if sys.argv[3] == "unchanged":
    source_dir.store_by_digest = None
found = source_dir.pack(sys.argv[1], Path(sys.argv[2]), clock=lambda: time.time_ns() + 60 * 10**9)
print(found.sha256)
"""


def later() -> int:
    """Give a time at which the files of a test have not changed for long."""
    return time.time_ns() + MINUTE


@pytest.fixture
def src(tmp_path: Path) -> Path:
    for name in ("train.py", "pkg/a.py"):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    return tmp_path / "src"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """List the archives that were written."""
    found: list[Any] = []

    def store(*words: Any, **options: Any) -> Any:
        found.append(store_by_digest(*words, **options))
        return found[-1]

    monkeypatch.setattr(source_dir, "store_by_digest", store)
    return found


def payloads(src: Path) -> Path:
    return src.parent / "smx" / "payloads"


def pack(src: Path, clock: Callable[[], int] = later) -> SourceDir:
    return source_dir.pack(str(src), payloads(src), clock=clock)


def archives(src: Path) -> list[str]:
    return [path.name for path in payloads(src).iterdir() if path.name.endswith((".tar.gz", ".part"))]


def change_secretly(path: Path, text: str) -> None:
    """Write other text of the same size and set the time of the last writing back, as a restored backup has it."""
    before = path.stat()
    path.write_text(text)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_unchanged_folder_is_not_packed_again(src: Path, written: list[Any]) -> None:
    first = pack(src)
    assert [pack(src) for _ in range(3)] == [first] * 3
    assert len(written) == 1


@pytest.mark.processes
def test_other_processes_find_what_one_has_packed(src: Path) -> None:
    first = pack(src)
    command = [sys.executable, "-c", IN_A_PROCESS, str(src), str(payloads(src)), "unchanged"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == first.sha256


@pytest.mark.processes
def test_processes_that_pack_at_the_same_time_leave_one_archive(src: Path, written: list[Any]) -> None:
    (src / "data.bin").write_bytes(os.urandom(20_000_000))
    command = [sys.executable, "-c", IN_A_PROCESS, str(src), str(payloads(src)), "new"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate()[0].strip() for process in running}
    found = pack(src)
    assert said == {found.sha256}
    assert archives(src) == [f"{found.sha256}.tar.gz"]
    assert pack(src) == found
    assert len(written) <= 1
    with tarfile.open(found.path) as archive:
        assert archive.getnames() == ["data.bin", "pkg/a.py", "train.py"]


def test_an_archive_that_is_used_looks_used_and_not_changed(src: Path) -> None:
    archive = Path(pack(src).path)
    changed = archive.stat().st_mtime_ns
    for path in payloads(src).iterdir():
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    pack(src)
    assert all(path.stat().st_atime > 1e9 for path in payloads(src).iterdir())
    assert archive.stat().st_mtime_ns == changed


@pytest.mark.parametrize("name", ["train.py", "pkg/a.py"])
def test_a_change_is_seen_although_size_and_time_are_the_same(src: Path, name: str) -> None:
    first = pack(src)
    change_secretly(src / name, f"# {name}\n".upper())
    assert pack(src).sha256 != first.sha256


CHANGES: dict[str, Callable[[Path], object]] = {
    "another name": lambda src: (src / "train.py").rename(src / "fit.py"),
    "another file of the same name": lambda src: (src / "pkg" / "a.py").replace(src / "train.py"),
    "a program": lambda src: (src / "train.py").chmod(0o755),
    "a file less": lambda src: (src / "train.py").unlink(),
    "a file more": lambda src: (src / "new.py").touch(),
    "an excluded file": lambda src: (src / ".gitignore").write_text("pkg\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_makes_another_archive(src: Path, written: list[Any], change: Callable[[Path], object]) -> None:
    first = pack(src)
    change(src)
    assert pack(src).sha256 != first.sha256
    assert len(written) == 2


def test_files_that_were_written_again_with_equal_content_make_the_same_archive(src: Path) -> None:
    first = pack(src)
    inode = Path(first.path).stat().st_ino
    (src / "train.py").write_text("# train.py\n")
    assert pack(src) == first
    assert Path(first.path).stat().st_ino == inode, "other names of the archive are names of one file"


@pytest.mark.parametrize(("seconds", "times"), [(1, 2), (4, 1)])
def test_a_folder_that_has_just_changed_is_packed_again(
    src: Path, written: list[Any], seconds: int, times: int
) -> None:
    newest = max(path.stat().st_ctime_ns for path in src.rglob("*") if path.is_file())
    for _ in range(2):
        pack(src, lambda: newest + seconds * 10**9)
    assert len(written) == times


def test_a_time_in_the_future_does_not_keep_a_folder_from_being_remembered(src: Path, written: list[Any]) -> None:
    ahead = time.time() + 10_000
    os.utime(src / "train.py", (ahead, ahead))
    assert pack(src) == pack(src)
    assert len(written) == 1


def test_a_file_that_changes_while_it_is_packed_is_packed_again(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def store(*words: Any, **options: Any) -> Any:
        change_secretly(src / "train.py", "# TRAIN.PY\n")
        return store_by_digest(*words, **options)

    with monkeypatch.context() as patch:
        patch.setattr(source_dir, "store_by_digest", store)
        pack(src)
    assert len(list(payloads(src).iterdir())) == 1, "it is not remembered"
    with tarfile.open(pack(src).path) as archive:
        content = archive.extractfile("train.py")
        assert content is not None
        assert content.read() == b"# TRAIN.PY\n"


def test_an_archive_that_was_damaged_is_replaced(src: Path) -> None:
    found = pack(src)
    whole = Path(found.path).read_bytes()
    with Path(found.path).open("r+b") as file:
        file.seek(20)
        file.write(b"damage")
    assert pack(src) == found
    assert Path(found.path).read_bytes() == whole


def test_an_archive_that_was_deleted_is_written_again(src: Path) -> None:
    found = pack(src)
    Path(found.path).unlink()
    assert pack(src) == found
    assert Path(found.path).exists()


def test_an_entry_that_is_not_readable_is_written_again(src: Path, written: list[Any]) -> None:
    found = pack(src)
    (entry,) = (path for path in payloads(src).iterdir() if path.suffix == ".json")
    assert entry.stat().st_mode & 0o777 == 0o600
    entry.write_text("half")
    assert pack(src) == pack(src) == found
    assert len(written) == 2


def test_names_that_are_no_text_have_a_fingerprint(src: Path, written: list[Any]) -> None:
    (src / os.fsdecode(b"\xff.py")).touch()
    assert pack(src) == pack(src)
    assert len(written) == 1
