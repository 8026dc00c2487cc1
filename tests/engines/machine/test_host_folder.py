"""A host's folder on this machine, whose entries its jobs may have replaced with anything."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import nobody
import pytest

from jupyter_smx.agent.system.files import host_layout, short_path
from jupyter_smx.controller.retention import prune_hosts
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.engines.machine.host_folder import HostFolder, host_names
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

ORDER = ["algo-2", "algo-10", "algo-1"]


@pytest.fixture
def folders(tmp_path: Path) -> ClusterFolders:
    """Return the folders of a cluster of three hosts with their descriptions."""
    found = ClusterFolders(tmp_path)
    found.clusters.mkdir()
    for name in ORDER:
        folder = found.host("c", name)
        folder.make()
        folder.describe({"hosts": ORDER, "limits": {"groups": {"cpu": "/group"}}})
    return found


def names(folders: ClusterFolders) -> list[str]:
    return [folder.path.name for folder in folders.hosts("c")]


@pytest.mark.parametrize("what", ['{"hosts": 5}', '{"hosts": [1, {}]}', "[]", "{torn", "nothing", "a pipe", "a folder"])
def test_what_a_job_writes_says_nothing_of_a_clusters_hosts_and_holds_up_no_release(
    folders: ClusterFolders, what: str
) -> None:
    for name in ORDER:
        file = folders.host("c", name).path / "host.json"
        file.unlink()
        if what == "a pipe":
            os.mkfifo(file)
        elif what == "a folder":
            file.mkdir()
        elif what != "nothing":
            file.write_text(what)
    assert names(folders) == ORDER
    assert [folder.path.name for folder in folders.close("c")] == ORDER
    assert all(folder.is_claimed() for folder in folders.hosts("c"))


def test_hosts_that_were_described_by_an_earlier_version_come_by_name(folders: ClusterFolders) -> None:
    for name in ORDER:
        (folders.clusters / "c" / f"{name}.json").unlink()
    assert names(folders) == sorted(ORDER)


def test_groups_are_removed_as_they_were_made_and_not_as_a_job_says(folders: ClusterFolders, tmp_path: Path) -> None:
    host = folders.host("c", "algo-1")
    (tmp_path / "empty").mkdir()
    (host.path / "host.json").write_text(f'{{"limits": {{"groups": {{"cpu": "{tmp_path / "empty"}"}}}}}}')
    assert host.control_groups() == ["/group"]
    host.sweep()
    assert (tmp_path / "empty").exists()


@pytest.mark.parametrize("name", ["ml", "tmp", "given", "code", "agent.sock", "shortcut"])
@pytest.mark.parametrize("kind", ["a pipe", "a link", "a folder", "a file"])
def test_a_sweep_takes_what_lies_there_and_nothing_else(
    folders: ClusterFolders, tmp_path: Path, name: str, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    host = folders.host("c", "algo-1")
    path = host.path / name
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to(outside)
    elif kind == "a folder":
        (path / "inner").mkdir(parents=True)
    else:
        path.write_text("x")
    said = host.sweep()
    assert (outside / "file").read_text() == "mine"
    # A folder in place of one of our own files is reported, since its content is unknown.
    assert os.path.lexists(path) == (name == "shortcut" and kind == "a folder")
    assert bool(said) == os.path.lexists(path)


DIG = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(1500):
    os.mkdir("d" * 9)
    os.chdir("d" * 9)
open("file", "w").close()
"""


@pytest.mark.parametrize("place", ["tmp", "spool"])
def test_a_folder_that_is_deeper_than_python_goes_is_removed(folders: ClusterFolders, place: str) -> None:
    """It blocks no release: a RecursionError would prevent each release from ending."""
    host = folders.host("c", "algo-1")
    (host.path / place).mkdir()
    subprocess.run([sys.executable, "-c", DIG, host.path / place], check=True)
    assert host.remove_files() == ""
    if place == "spool":
        assert prune_hosts(folders.clusters, [], time.time() + 1) == ["c"]
    assert not (host.path / place).exists()


def test_a_short_name_that_a_job_wrote_removes_nothing_of_others(tmp_path: Path) -> None:
    victim = tmp_path / "smx-00000000"
    victim.symlink_to(tmp_path)
    (tmp_path / host_layout.SHORTCUT).write_text(str(victim))
    short_path.remove_link(os.fspath(tmp_path))
    assert victim.is_symlink()
    assert not (tmp_path / host_layout.SHORTCUT).exists()


async def test_a_socket_is_dialled_itself_and_not_what_a_link_leads_to(tmp_path: Path) -> None:
    host = HostFolder(tmp_path / "algo-1")
    host.path.mkdir()
    with socket.socket(socket.AF_UNIX) as others:
        others.bind(os.fspath(tmp_path / "others.sock"))
        others.listen()
        others.settimeout(0)
        host.socket.symlink_to(tmp_path / "others.sock")
        with pytest.raises(UnavailableError, match="does not answer"):
            await host.dial()
        with pytest.raises(BlockingIOError):
            others.accept()
        host.socket.unlink()
        (tmp_path / "others.sock").rename(host.socket)
        _, writer = await host.dial()
        writer.close()
        others.accept()[0].close()


@pytest.mark.parametrize("name", ["agent.json", "agent.log"])
def test_a_pipe_in_the_place_of_what_an_agent_says_is_not_waited_for(tmp_path: Path, name: str) -> None:
    host = HostFolder(tmp_path / "algo-1")
    host.path.mkdir()
    os.mkfifo(host.path / name)
    if name == "agent.log":
        assert host.log_tail() == ""
    else:
        with pytest.raises(OSError, match="not a file"):
            host.read_agent()


CLOSE = """
import sys
from pathlib import Path
from jupyter_smx.engines.machine.host_folder import HostFolder
host = HostFolder(Path(sys.argv[1]) / "algo-1")
host.path.mkdir()
host.path.chmod(0)
host.claim()
print(host.is_claimed())
"""


@pytest.mark.skipif(not nobody.interpreter(), reason="needs root, and a Python that nobody may start")
def test_a_folder_that_a_job_closed_to_its_own_user_is_claimed() -> None:
    with nobody.home() as home:
        assert nobody.run(CLOSE, str(home), home=str(home)) == "True\n"


def test_hosts_are_folders_and_no_links(folders: ClusterFolders, tmp_path: Path) -> None:
    (folders.clusters / "c" / "algo-3").symlink_to(tmp_path)
    assert host_names(folders.clusters / "c") == ORDER
