"""Rendezvous sockets: another process finds an open one by its name in a folder, and only as long as it is open."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.launchers import rendezvous
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not process.LINUX, reason="the name of a door leads over /proc")


def visitor() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose path is too long for the address of a socket."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    return long


def test_who_comes_in_at_an_open_door_is_heard_and_later_nobody_finds_it(folder: Path) -> None:
    with visitor() as early, visitor() as late, visitor() as too_late:
        assert not rendezvous.can_connect(early, str(folder), "a.sock"), "nobody has opened it"
        with rendezvous.listen(str(folder), "a.sock", 2) as listener:
            assert rendezvous.can_connect(late, str(folder), "a.sock")
            late.sendall(b"here")
            with listener.accept()[0] as heard:
                assert heard.recv(10) == b"here"
        assert not rendezvous.can_connect(too_late, str(folder), "a.sock")
    assert list(folder.iterdir()) == []


def test_a_door_whose_host_fails_is_closed_too_and_can_be_opened_again(folder: Path) -> None:
    with pytest.raises(EOFError), rendezvous.listen(str(folder), "a.sock"):
        raise EOFError
    assert list(folder.iterdir()) == []
    with rendezvous.listen(str(folder), "a.sock"), visitor() as one:
        assert rendezvous.can_connect(one, str(folder), "a.sock")
