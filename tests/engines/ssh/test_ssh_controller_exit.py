"""Connections at the end of a controller: it closes those that it opened, and what others do over them goes on."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually, eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh_controller import SshControllerWorld
    from ssh_helpers import Sshs
    from worlds.ssh.machine import Machine

pytestmark = pytest.mark.processes
_PR_SET_CHILD_SUBREAPER = 36


def masters_of(world: SshControllerWorld) -> list[int]:
    """Find the master connections of the controller."""
    seen = process_scan.processes()
    return [each.pid for each in seen if os.fspath(world.controls) in each.command and " -N " in each.command]


def is_alive(pid: int) -> bool:
    return process_scan.read_process(pid) is not None


def test_a_controller_that_ends_closes_its_connections_and_the_next_one_opens_others(
    ssh_controller: SshControllerWorld,
) -> None:
    gate = ssh_controller.gate()
    job = ssh_controller.submit(gate=gate)
    job.until_it_says("begun")
    (master,) = masters_of(ssh_controller)
    os.kill(ssh_controller.controller(), signal.SIGTERM)
    eventually_blocking(lambda: not ssh_controller.controllers(), "the controller has ended", within=30)
    eventually_blocking(lambda: not is_alive(master), "its connection has ended", within=5)
    gate.touch()
    assert (job.wait().state.value, job.runs()) == ("Completed", 1)


async def test_a_session_of_a_person_goes_on_and_the_connection_ends_with_it(sshs: Sshs) -> None:
    controller, person = sshs.connect(), sshs.connect()
    await controller.run("true")
    (master,) = sshs.masters()
    async with person.open("while read line; do echo got $line; done") as shell:
        await controller.retire()
        shell.stdin.write(b"a line\n")
        assert await shell.stdout.readline() == b"got a line\n"
        assert is_alive(master)
    await eventually(lambda: not is_alive(master), "the connection has ended")
    assert (await controller.run("echo again")).output == b"again\n"


async def test_a_controller_that_ends_waits_no_two_seconds_for_a_connection_that_was_stopped(
    sshs: Sshs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The end of the ssh that asked may take another second on a busy machine.
    monkeypatch.setattr("jupyter_smx.engines.ssh.master._STOP_TIMEOUT", 0.1)
    connection = sshs.connect()
    await connection.run("true")
    (master,) = sshs.masters()
    os.kill(master, signal.SIGSTOP)
    await asyncio.wait_for(connection.retire(), 2)
    os.kill(master, signal.SIGKILL)
    await eventually(lambda: not is_alive(master), "the connection has ended")


async def test_a_controller_that_ends_waits_no_two_seconds_for_a_machine_that_is_silent(
    sshs: Sshs, one: Machine
) -> None:
    one.cut()
    connection = sshs.connect(connect_timeout=60.0)
    starting = asyncio.create_task(connection.run("true"))
    await eventually(sshs.processes, "a start is under way")
    await asyncio.wait_for(connection.retire(), 2)
    with pytest.raises(UnavailableError, match="The connection to smx-one is closed"):
        await starting
    assert sshs.processes() == {}


@contextmanager
def adopting() -> Iterator[None]:
    """Be the parent of processes that lost theirs, as the first process of a container is, and collect no ends."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


async def test_a_master_whose_end_is_never_collected_counts_as_ended(
    sshs: Sshs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_smx.engines.ssh.master._END_CHECKS", 100_000)
    connection = sshs.connect()
    with adopting():
        await connection.run("true")
    (pid,) = sshs.masters()
    await asyncio.wait_for(connection.close(), 20)
    assert (await asyncio.to_thread(os.waitpid, pid, os.WNOHANG))[0] == pid, "it was a zombie"
