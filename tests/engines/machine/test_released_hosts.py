"""A release does not wait until a folder of many files is deleted, and what is left of it goes with the next look."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files import host_layout, rmtree
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.engines.machine.host_folder import RELEASED_MARKER, HostFolder
from jupyter_smx.engines.machine.released_hosts import ReleasedHosts, remove_released
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = logging.getLogger("released")
FOREVER = 1000.0


@pytest.fixture
def host(tmp_path: Path) -> HostFolder:
    """Give a host with a socket, a log, the spool and folders of a job."""
    found = ClusterFolders(tmp_path).host("c", "algo-1")
    for name in (host_layout.ML, host_layout.TMP, host_layout.SPOOL):
        (found.path / name / "files").mkdir(parents=True)
    for name in (host_layout.SOCKET, host_layout.AGENT_LOG):
        (found.path / name).touch()
    return found


def names(host: HostFolder) -> list[str]:
    return sorted(path.name for path in host.path.iterdir())


KEPT = sorted([host_layout.AGENT_LOG, host_layout.SPOOL])


class SlowDisk:
    """A disk that deletes a folder when it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_delete = threading.Event()
        self.deletions: list[str] = []
        self._real = rmtree.remove
        monkeypatch.setattr(rmtree, "remove", self._remove)

    def _remove(self, path: str) -> None:
        if path.endswith(f"/{host_layout.ML}"):
            self.deletions.append(path)
            self.may_delete.wait()
        self._real(path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    found = SlowDisk(monkeypatch)
    yield found
    found.may_delete.set()


def test_few_files_are_gone_when_the_release_is_over(host: HostFolder) -> None:
    ReleasedHosts(LOG, FOREVER).remove("c", [host])
    assert names(host) == KEPT


def test_a_release_does_not_wait_for_many_files_and_they_go_all_the_same(
    host: HostFolder, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    released = ReleasedHosts(LOG, 0.01)
    began = time.monotonic()
    with caplog.at_level(logging.INFO):
        released.remove("c", [host])
        released.remove("c", [host])
    assert time.monotonic() - began < 10
    assert host_layout.ML in names(host)
    assert not host.socket.exists(), "nothing connects to an ended host"
    assert len(disk.deletions) == 1, "a second release does not delete the same files at the same time"
    assert "cluster=c released: the deletion of its many files continues" in caplog.text
    disk.may_delete.set()
    eventually_blocking(lambda: names(host) == KEPT, "the files are gone")


def test_a_second_release_waits_for_the_deletion_of_the_first(host: HostFolder, disk: SlowDisk) -> None:
    released = ReleasedHosts(LOG, 0.01)
    released.remove("c", [host])
    released._patience = FOREVER
    second = threading.Thread(target=released.remove, args=("c", [host]))
    second.start()
    disk.may_delete.set()
    second.join()
    assert names(host) == KEPT


def test_a_file_that_stays_is_named_and_the_next_release_tries_again(
    host: HostFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = rmtree.remove

    def busy(path: str) -> None:
        if path.endswith(f"/{host_layout.ML}"):
            raise OSError(16, "Device or resource busy", path)
        real(path)

    monkeypatch.setattr(rmtree, "remove", busy)
    released = ReleasedHosts(LOG, FOREVER)
    released.remove("c", [host])
    assert f"cluster=c released: files of {host.path} could not be removed: " in caplog.text
    monkeypatch.setattr(rmtree, "remove", real)
    released.remove("c", [host])
    assert names(host) == KEPT


def test_what_a_controller_that_ended_had_not_deleted_is_deleted_by_the_next_one(host: HostFolder) -> None:
    alive = HostFolder(host.path.parents[1] / "alive" / "algo-1")
    (alive.path / host_layout.ML).mkdir(parents=True)
    (host.path.parent / RELEASED_MARKER).touch()
    remove_released(host.path.parents[1])
    assert names(host) == sorted([*KEPT, host_layout.SOCKET])
    assert names(alive) == [host_layout.ML]
    remove_released(host.path.parents[1] / "nowhere")
