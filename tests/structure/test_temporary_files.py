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
    monkeypatch.setattr(temporary_files, "_SOCKETS", pytester.path / "no-other-run")
    monkeypatch.setattr(temporary_files, "AT_END", [])
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
    result.stdout.fnmatch_lines(["*temporary files left by this run: */place/smx-left"])


def test_a_run_does_not_fail_beside_another_one_whose_files_it_sees(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    others = pytester.path / "no-other-run"
    more = f"Path('{{place}}', 'smx-left').touch(); Path({str(others)!r}).write_text('0: 1 @smx-test-run-1-smx-t-x')"
    result = run(pytester, monkeypatch, more)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*left by this run, or another run that was active: */place/smx-left"])
    (pytester.path / "place" / "smx-left").unlink()
    assert temporary_files.has_active_runs()
    assert not temporary_files.has_active_runs("@smx-test-run-1-smx-t-x")


def test_a_run_tells_others_that_it_is_active(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_files, "_PLACES", ())
    if not temporary_files._SOCKETS.exists():
        pytest.skip("no list of sockets")
    config = pytester.parseconfig("-p", "plugins.temporary_files")
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    monkeypatch.setattr("tempfile.tempdir", None)
    config._do_configure()
    own = temporary_files._address(config.stash[temporary_files._RUN].folder)
    assert own in temporary_files._SOCKETS.read_text().split()
    config._ensure_unconfigure()
    assert own not in temporary_files._SOCKETS.read_text().split()


def test_what_another_program_uses_is_not_of_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = pytester.mkdir("proc")
    (proc / "77").mkdir()
    monkeypatch.setattr(temporary_files, "_PROC", proc)
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    (proc / "77" / "environ").write_text(f"A=1\0FOLDER={pytester.path}/place/chaos-x/data\0")
    assert run(pytester, monkeypatch, "Path('{place}', 'chaos-x').mkdir()").ret == 0
    (proc / "77" / "environ").write_text("")
    (pytester.path / "place" / "chaos-x").rmdir()


def test_helpers_remove_their_files_before_the_report(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    more = (
        "folder = Path('{place}', 'smx-shown-x'); folder.mkdir();"
        "from plugins import temporary_files; temporary_files.AT_END.append(folder.rmdir)"
    )
    assert run(pytester, monkeypatch, more).ret == 0


def test_what_killed_processes_leave_is_removed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (
        "import socket; folder = Path('{place}', 'smx-0011aaff'); folder.mkdir(); os.chdir(folder);"
        "killed = socket.socket(socket.AF_UNIX); killed.bind('s'); killed.close()"
    )
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    monkeypatch.chdir(pytester.path)
    assert run(pytester, monkeypatch, more).ret == 0
    assert list((pytester.path / "place").iterdir()) == []


def test_what_may_be_of_another_run_is_left_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    others = pytester.path / "no-other-run"
    more = (
        "Path('{place}', 'smx-t-other').mkdir(); Path('{place}', 'smx-1').symlink_to('/nowhere');"
        f"Path('{{place}}', 'smx-00aa11ff').mkdir(); Path({str(others)!r}).write_text('@smx-test-run-1-smx-t-x')"
    )
    monkeypatch.setenv(temporary_files.FAIL_VARIABLE, "1")
    assert run(pytester, monkeypatch, more).ret == 0
    assert len(list((pytester.path / "place").iterdir())) == 3


def test_links_to_hosts_that_are_gone_are_removed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := pytester.mkdir("host")).chmod(0o700)
    names = {"smx-0011aaff": "/nowhere", "smx-0011aafe": folder, "smx-not-of-a-host": "/nowhere"}
    links = [f"Path('{{place}}', {name!r}).symlink_to({str(target)!r})" for name, target in names.items()]
    assert run(pytester, monkeypatch, "; ".join(links)).ret == 0
    assert sorted(path.name for path in (pytester.path / "place").iterdir()) == ["smx-0011aafe", "smx-not-of-a-host"]


def test_a_mount_point_of_another_run_is_named_and_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "Path('{place}', 'smx-shown-x').mkdir(); os.utime('{place}/smx-shown-x', (0, 0))"
    run(pytester, monkeypatch, more).stdout.fnmatch_lines(["*temporary files left by this run: */place/smx-shown-x"])
    assert len(list((pytester.path / "place").iterdir())) == 1


def test_a_folder_with_a_mount_is_not_removed(tmp_path: Path) -> None:
    mounts = f"proc /proc proc rw 0 0\ntmpfs {tmp_path}/a/b tmpfs rw 0 0\n"
    assert temporary_files.is_mounted_below(tmp_path, mounts)
    assert not temporary_files.is_mounted_below(tmp_path / "a" / "c", mounts)
