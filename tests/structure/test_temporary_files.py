"""A run of tests has a folder for its temporary files, and fails if it leaves others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from plugins import temporary_files

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ("pytester",)

RUN = """
import os, tempfile
from pathlib import Path

def test_it():
    Path(tempfile.mkdtemp(), "x").touch()
    assert os.path.basename(tempfile.gettempdir()).startswith("smx-t-")
    {more}
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: str) -> pytest.RunResult:
    place = pytester.mkdir("place")
    monkeypatch.setattr(temporary_files, "_PLACES", (place,))
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(pytester.path))
    monkeypatch.setattr("tempfile.tempdir", None)
    pytester.makepyfile(RUN.format(more=more.format(place=place)))
    return pytester.runpytest_inprocess("-p", "plugins.temporary_files", "-p", "no:cacheprovider")


def test_the_folder_ends_with_the_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(pytester, monkeypatch, "Path('{place}', 'of-others').touch()")
    assert result.ret == 0
    assert list((pytester.path / "temporary").iterdir()) == []


@pytest.mark.parametrize("fails", ["1", ""])
def test_a_run_of_ci_fails_that_leaves_files_elsewhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, fails)
    result = run(pytester, monkeypatch, "Path('{place}', 'smx-left').touch()")
    assert result.ret == bool(fails)
    result.stdout.fnmatch_lines(["*temporary files left: */place/smx-left"])


def test_what_killed_processes_leave_is_removed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (
        "import socket; folder = Path('{place}', 'smx-0011aaff'); folder.mkdir(); os.chdir(folder);"
        "killed = socket.socket(socket.AF_UNIX); killed.bind('s'); killed.close(); os.utime(folder, (0, 0))"
    )
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    monkeypatch.chdir(pytester.path)
    assert run(pytester, monkeypatch, more).ret == 0
    assert list((pytester.path / "place").iterdir()) == []


def test_what_may_be_of_another_run_is_left_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (
        "Path('{place}', 'smx-t-other').mkdir(); Path('{place}', 'smx-1').symlink_to('/nowhere');"
        "Path('{place}', 'smx-00aa11ff').mkdir()"
    )
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    assert run(pytester, monkeypatch, more).ret == 0
    assert len(list((pytester.path / "place").iterdir())) == 3


def test_a_mount_point_of_another_run_is_named_and_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "Path('{place}', 'smx-shown-x').mkdir(); os.utime('{place}/smx-shown-x', (0, 0))"
    run(pytester, monkeypatch, more).stdout.fnmatch_lines(["*temporary files left: */place/smx-shown-x"])
    assert len(list((pytester.path / "place").iterdir())) == 1


def test_a_folder_with_a_mount_is_not_removed(tmp_path: Path) -> None:
    mounts = f"proc /proc proc rw 0 0\ntmpfs {tmp_path}/a/b tmpfs rw 0 0\n"
    assert temporary_files.is_mounted_below(tmp_path, mounts)
    assert not temporary_files.is_mounted_below(tmp_path / "a" / "c", mounts)
