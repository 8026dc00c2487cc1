"""A host that lies deep in the tree: sockets in its jobs' ``TMPDIR`` have room, and the link to it goes with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files import host_layout, short_path
from jupyter_smx.agent.system.files.host_folder import HostFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent

SOCKETS = """
import json, multiprocessing, os, socket, tempfile
if __name__ == "__main__":
    for method in ("fork", "forkserver"):
        with multiprocessing.get_context(method).Manager() as manager:
            assert list(manager.list([2, 3])) == [2, 3]
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.join(tempfile.mkdtemp(), "s" * 30))
    print(json.dumps(tempfile.gettempdir()))
"""
TELL = "import json, os, tempfile; print(json.dumps([tempfile.gettempdir(), os.listdir(tempfile.gettempdir())]))"


@pytest.fixture
def deep(start_agent: Callable[..., Agent], tmp_path: Path) -> Agent:
    """Give an agent whose folder has a path that no socket has."""
    parent = tmp_path / ("deep" * 30)
    parent.mkdir()
    return start_agent(parent=parent)


def link_of(agent: Agent) -> Path:
    return Path((agent.folder / host_layout.SHORTCUT).read_text())


def test_sockets_fit_into_the_folder_for_temporary_files_wherever_the_host_lies(deep: Agent) -> None:
    tmp = Path(deep.json(SOCKETS))
    assert len(os.fsencode(tmp)) <= short_path.MAX_LENGTH
    assert tmp.parent == link_of(deep)
    assert not tmp.is_symlink(), "a folder, whatever looks at it"
    assert tmp.samefile(deep.folder / "tmp"), "on the disk where the host is"


def test_a_folder_with_a_short_path_has_no_other_name(start_agent: Callable[..., Agent], far_folder: Path) -> None:
    agent = start_agent(parent=far_folder)
    assert agent.json(TELL) == [str(agent.folder / "tmp"), []]
    assert not (agent.folder / host_layout.SHORTCUT).exists()


@pytest.mark.parametrize(
    "deed",
    ["os.unlink(link)", "os.unlink(link); os.makedirs(link + '/tmp/litter')", "os.unlink(link); open(link, 'w')"],
    ids=["away", "a folder", "a file"],
)
def test_the_link_is_there_for_the_next_job_whatever_took_its_place(deep: Agent, deed: str) -> None:
    tmp = str(link_of(deep) / "tmp")
    record = deep.run(f"import os\nlink = {str(link_of(deep))!r}\n{deed}")
    assert (record["cause"], record["exit_code"]) == ("exit", 0), record
    assert deep.json(TELL) == [tmp, []]
    assert link_of(deep).readlink() == deep.folder


def test_the_link_goes_with_its_host(deep: Agent) -> None:
    link = link_of(deep)
    assert link.is_symlink()
    deep.process.send_signal(signal.SIGTERM)
    assert deep.wait() == 0
    assert not link.is_symlink()
    assert not (deep.folder / host_layout.SHORTCUT).exists()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give two folders that stand for those in which a link may be."""
    found = (tmp_path / "one", tmp_path / "two")
    for place in found:
        place.mkdir(mode=0o700)
    monkeypatch.setattr(short_path, "PARENT_FOLDERS", tuple(map(str, found)))
    monkeypatch.setattr(short_path, "MAX_LENGTH", 0)
    return found


def folder_of(path: Path) -> HostFolder:
    path.mkdir()
    return HostFolder(str(path))


def test_no_link_lies_where_anybody_may_replace_it(places: tuple[Path, Path], tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "host")
    places[0].chmod(0o777)
    assert Path(short_path.make_short_path(folder)).parent == places[1]
    places[1].chmod(0o770)
    assert short_path.make_short_path(folder) == folder.root
    places[0].chmod(0o1777)
    assert Path(short_path.make_short_path(folder)).parent == places[0]


def test_a_name_that_somebody_has_is_not_taken(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places[0] / "smx-00000000").touch()
    drawn = iter((bytes(4), b"\0\0\0\1"))
    monkeypatch.setattr(os, "urandom", lambda _count: next(drawn))
    folder = folder_of(tmp_path / "host")
    assert short_path.make_short_path(folder) == str(places[0] / "smx-00000001")
    short_path.remove_link(folder.root)
    assert [path.name for path in places[0].iterdir()] == ["smx-00000000"]


@pytest.mark.parametrize(
    "written", ["", "/", "{place}/smx-0", "{place}/smx-00000000", "{outside}", "{place}/../outside"]
)
def test_nothing_but_the_link_is_removed_whatever_is_written(
    places: tuple[Path, Path], tmp_path: Path, written: str
) -> None:
    folder, outside = folder_of(tmp_path / "host"), tmp_path / "outside"
    outside.symlink_to(folder.root)
    (places[0] / "smx-00000000").symlink_to(tmp_path)
    Path(folder.path(host_layout.SHORTCUT)).write_text(written.format(place=places[0], outside=outside))
    short_path.remove_link(folder.root)
    assert outside.is_symlink()
    assert (places[0] / "smx-00000000").is_symlink()


def test_a_link_to_a_folder_that_is_gone_is_removed(places: tuple[Path, Path], tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "host")
    link = short_path.make_short_path(folder)
    (tmp_path / "host").rename(tmp_path / "moved")
    short_path.remove_link(folder.root, link)
    assert not list(places[0].iterdir())
    short_path.remove_link(folder.root)  # nothing is there any more, and nothing is said
