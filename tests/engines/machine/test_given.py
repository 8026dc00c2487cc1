"""Files that the engine makes available to a host that sees only its own folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files.walk import make_folders
from jupyter_smx.engines.machine import provide_files
from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.engines.machine.provide_files import FileReader
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

INSIDE = "/run/smx/given"


@pytest.fixture
def host(tmp_path: Path) -> HostFolder:
    folder = HostFolder(tmp_path / "clusters" / "c" / "algo-1")
    (folder.path / "given").mkdir(parents=True)
    return folder


def outside(host: HostFolder, inside: str) -> Path:
    """Return this machine's path of what the host finds at a path."""
    assert inside.startswith(f"{INSIDE}/")
    return host.path / "given" / inside[len(INSIDE) + 1 :]


def bring(host: HostFolder, *sources: Path, reader: FileReader = FileReader()) -> list[Path]:  # noqa: B008 - it never changes
    found = provide_files.provide_files(host, [str(source) for source in sources], INSIDE, reader)
    return [outside(host, found[str(source)]) for source in sources]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with a file in a folder, and links of each kind."""
    top = tmp_path / "it's a\nsource 日本"
    (top / "inner" / "empty").mkdir(parents=True)
    (top / "inner" / "a b.csv").write_text("1,2")
    (tmp_path / "elsewhere.txt").write_text("from outside")
    (top / "leads out").symlink_to(tmp_path / "elsewhere.txt")
    (top / "leads in").symlink_to("inner")
    (top / "leads up").symlink_to(top)
    (top / "leads nowhere").symlink_to("/not/there")
    return top


def test_a_folder_is_there_with_what_its_links_lead_to(host: HostFolder, tree: Path) -> None:
    [there] = bring(host, tree)
    assert there.name == tree.name
    assert (there / "inner" / "a b.csv").read_text() == "1,2"
    assert (there / "leads in" / "a b.csv").read_text() == "1,2"
    assert (there / "leads out").read_text() == "from outside"
    assert not (there / "leads out").is_symlink()
    assert (there / "inner" / "empty").is_dir()
    assert (there / "leads up").is_symlink()
    assert str((there / "leads nowhere").readlink()) == "/not/there"


def test_a_folder_that_is_deeper_than_python_calls_itself_is_there(deep_path: Path, host: HostFolder) -> None:
    top, down = deep_path / "deep", "d/" * 1100
    make_folders(str(top / down))
    (top / down / "x").write_text("1")
    [there] = bring(host, top)
    assert (there / down / "x").read_text() == "1"
    (top / down / "x").write_text("another")
    [anew] = bring(host, top)
    assert anew != there


def test_a_file_takes_no_room(host: HostFolder, tree: Path) -> None:
    [there] = bring(host, tree / "inner" / "a b.csv")
    assert there.samefile(tree / "inner" / "a b.csv")
    assert there.name == "a b.csv"


def test_what_has_not_changed_is_not_made_anew(host: HostFolder, tree: Path) -> None:
    first, second = bring(host, tree)[0], bring(host, tree)[0]
    assert first == second
    (tree / "inner" / "new").write_text("x")
    third = bring(host, tree)[0]
    assert third != first
    assert (third / "inner" / "new").read_text() == "x"
    assert not first.exists()


def test_what_became_another_of_the_same_length_is_made_anew(host: HostFolder, tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.write_text("old")
    first = bring(host, source)[0]
    replacement = tmp_path / "next"
    replacement.write_text("new")
    replacement.replace(source)
    [second] = bring(host, source)
    assert (second.read_text(), first.exists()) == ("new", False)


def test_what_the_reader_may_not_read_is_copied_for_it(host: HostFolder, tmp_path: Path) -> None:
    source = tmp_path / "private.sh"
    source.write_text("secret")
    source.chmod(0o700)
    found = source.stat()
    [there] = bring(host, source, reader=FileReader(found.st_uid + 1, found.st_gid + 1))
    assert not there.samefile(source)
    assert there.read_text() == "secret"
    assert there.stat().st_mode & 0o777 == 0o555
    assert there.stat().st_mtime_ns == found.st_mtime_ns
    assert source.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_root_in_a_container_is_given_a_copy_of_what_only_its_owner_may_read(host: HostFolder, tmp_path: Path) -> None:
    """The container's root has no capabilities, not even the one to read every file."""
    source = tmp_path / "private"
    source.write_text("secret")
    source.chmod(0o600)
    os.chown(source, 1000, 1000)
    [there] = bring(host, source, reader=FileReader(0, 0))
    assert not there.samefile(source)
    assert there.read_text() == "secret"
    os.chown(source, 0, 0)
    [there] = bring(host, source, reader=FileReader(0, 0))
    assert there.samefile(source)


def test_a_folder_of_the_host_that_refuses_is_told_and_no_source_of_no_name(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"source: nothing can be given to the host: '.*given\.lock'") as told:
        bring(HostFolder(tmp_path / "not" / "there"), tmp_path)
    assert told.value.cure


def test_an_unknown_record_makes_everything_anew(host: HostFolder, tree: Path) -> None:
    bring(host, tree)
    provide_files.record_path(host).write_text("{torn")
    [there] = bring(host, tree)
    assert (there / "inner" / "a b.csv").read_text() == "1,2"


def test_no_number_is_ever_used_twice(host: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provide_files, "MAX_UNUSED", 0)
    seen: list[str] = []
    for turn in range(12):
        source = tmp_path / f"source-{turn % 3}"
        source.write_text(str(turn))
        [there] = bring(host, source)
        assert there.read_text() == str(turn)
        seen.append(there.parent.name)
        if turn % 4 == 3:
            provide_files.record_path(host).unlink()
    assert len({*seen}) == len(seen)
    assert os.listdir(host.path / "given") == [seen[-1]]  # noqa: PTH208 - of one name


def test_what_an_earlier_version_wrote_down_is_known(host: HostFolder, tree: Path) -> None:
    [there] = bring(host, tree)
    [row] = json.loads(provide_files.record_path(host).read_text())["items"]
    provide_files.record_path(host).write_text(json.dumps([row[:3]]))
    assert bring(host, tree) == [there]


def test_the_oldest_go_when_there_are_many_and_never_those_that_are_needed(host: HostFolder, tmp_path: Path) -> None:
    sources = [tmp_path / f"source-{number}" for number in range(provide_files.MAX_UNUSED + 3)]
    for source in sources:
        source.write_text(source.name)
    places = [bring(host, source)[0] for source in sources]
    assert [place.exists() for place in places[:3]] == [False, False, True]
    assert all(place.read_text() == place.name for place in places[2:])
    assert all(place.exists() for place in bring(host, *sources))


@pytest.mark.parametrize("kind", ["nothing", "a pipe"])
def test_what_cannot_be_given_is_refused_with_its_name(host: HostFolder, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    if kind == "a pipe":
        os.mkfifo(source)
    with pytest.raises(RefusedError, match="source") as told:
        bring(host, source)
    assert (told.value.field, told.value.value) == ("source", str(source))
    assert told.value.rule
    assert told.value.cure
    assert list((host.path / "given").iterdir()) == []


def test_nothing_half_made_stays(host: HostFolder, tree: Path) -> None:
    os.mkfifo(tree / "inner" / "z pipe")
    with pytest.raises(RefusedError, match="z pipe"):
        bring(host, tree)
    assert list((host.path / "given").iterdir()) == []
