"""Streams to sockets of a machine: forwarded by the master, or over a session where sshd forwards none."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from typing import TYPE_CHECKING

import pytest
from ssh_helpers import FarAgent, bring_archive, echoed, logins, relay
from worlds.ssh import disk

from jupyter_smx.agent import wire
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ssh_helpers import Sshs
    from worlds.ssh.machine import Machine

    from jupyter_smx.engines.ssh.connection import SshConnection

pytestmark = pytest.mark.processes
MUTE = """import socket
s = socket.socket(socket.AF_UNIX)
s.bind("mute.sock")
s.listen()
c = s.accept()[0]
open("accepted", "w")
while c.recv(9999):
    pass
open("closed", "w")"""
NO_FORWARDING = "AllowStreamLocalForwarding no"


@pytest.fixture
async def connection(sshs: Sshs, one: Machine) -> SshConnection:
    del one  # wiped first
    return sshs.connect(relay=relay)


@pytest.fixture
async def agent(one: Machine, connection: SshConnection) -> AsyncIterator[FarAgent]:
    async with FarAgent(one, connection) as agent:
        yield agent


async def forbid_forwarding(connection: SshConnection, one: Machine, *options: str) -> None:
    """Restart sshd with other options, and let the connection be opened under them."""
    await connection.close()
    await asyncio.to_thread(one.set_sshd, NO_FORWARDING, *options)


async def test_streams_to_one_socket_share_a_forwarding_and_start_no_process(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    before = logins(one)
    first = await connection.connect(agent.path)
    processes = sshs.processes()
    second = await connection.connect(agent.path)
    for number, stream in enumerate((first, second, first), 1):
        assert await echoed(*stream, number, b"body %d" % number) == b"body %d" % number
    assert sshs.processes() == processes == sshs.masters()
    assert len([path for path in sshs.folder.iterdir() if path.is_socket()]) == 2  # the control socket and this one
    assert all(path.stat().st_mode & 0o77 == 0 for path in sshs.folder.iterdir() if path.is_socket())
    assert logins(one) == before
    first[1].close()
    await first[1].wait_closed()
    assert await echoed(*second, 4, b"still there") == b"still there"
    second[1].close()


async def test_a_socket_that_no_agent_listens_at_is_unavailable(
    connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    agent.kill()
    await eventually(lambda: not any("far_agent" in each.command for each in one.processes()), "the agent has ended")
    for path in (agent.path, f"{disk.HOME}/nothing", f"{disk.HOME}/.ssh/authorized_keys"):
        with pytest.raises(UnavailableError, match="No agent answers at its socket on smx-one") as refused:
            await connection.connect(path)
        assert refused.value.transient
    alone = connection
    alone._relay_command = None
    with pytest.raises(UnavailableError, match="No agent answers at its socket on smx-one"):
        await alone.connect(agent.path)


async def test_an_agent_that_listens_again_is_reached_over_the_same_forwarding(
    connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    agent.kill()
    with pytest.raises(UnavailableError):
        await connection.connect(agent.path)
    async with FarAgent(one, connection):
        reader, writer = await connection.connect(agent.path)
        assert await echoed(reader, writer, 1, b"again") == b"again"
        writer.close()


async def test_a_stream_ends_with_its_agent_and_with_the_master(
    sshs: Sshs, connection: SshConnection, agent: FarAgent
) -> None:
    reader, writer = await connection.connect(agent.path)
    (master,) = sshs.masters()
    os.kill(master, signal.SIGKILL)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    reader, writer = await connection.connect(agent.path)
    assert await echoed(reader, writer, 1, b"again") == b"again"
    agent.kill()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_forwarding_whose_file_is_gone_is_made_again(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    (await connection.connect(agent.path))[1].close()
    before = logins(one)
    (local,) = connection._forwards.values()
    local.unlink()
    reader, writer = await connection.connect(agent.path)
    assert await echoed(reader, writer, 1, b"again") == b"again"
    assert logins(one) == before
    writer.close()
    await connection.disconnect(agent.path)
    assert not local.exists()
    assert sshs.processes() == sshs.masters()


async def test_another_connection_takes_over_the_forwardings_of_the_one_before(
    sshs: Sshs, connection: SshConnection, agent: FarAgent
) -> None:
    (await connection.connect(agent.path))[1].close()
    reader, writer = await sshs.connect().connect(agent.path)
    assert await echoed(reader, writer, 1, b"after a restart") == b"after a restart"
    writer.close()


async def test_where_sshd_forwards_no_sockets_a_stream_has_a_session(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    await forbid_forwarding(connection, one)
    reader, writer = await connection.connect(agent.path)
    body = os.urandom(wire.MAX_BODY)
    for number in range(40):  # more than all buffers on the way hold, before the first answer is read
        writer.write(wire.encode({"id": number}, body))
    for number in range(40):
        frame = await asyncio.wait_for(wire.read(reader), 30)
        assert (frame.header["re"], hashlib.sha256(frame.body).digest()) == (number, hashlib.sha256(body).digest())
    writer.close()
    await writer.wait_closed()
    await sshs.only_masters_are_left()
    await eventually(lambda: connection._slots.in_use == 0, "its session is free again")


async def test_a_relayed_stream_ends_with_its_agent(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    await forbid_forwarding(connection, one)
    reader, writer = await connection.connect(agent.path)
    agent.kill()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    await sshs.only_masters_are_left()


async def test_few_sessions_and_no_forwarding_are_told_by_the_names_of_the_settings(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    await forbid_forwarding(connection, one)
    streams = [await connection.connect(agent.path) for _ in range(5)]
    with pytest.raises(UnavailableError, match=r"sessions for 5 hosts.*AllowStreamLocalForwarding yes") as refused:
        await connection.connect(agent.path)
    assert refused.value.transient
    done = await asyncio.gather(*(connection.run(f"echo {number}") for number in range(6)))  # commands have sessions
    assert [each.output for each in done] == [b"%d\n" % number for number in range(6)]
    streams[0][1].close()
    await eventually(lambda: len(connection._relays) == 4, "a session is free")
    streams[0] = await connection.connect(agent.path)
    for _, writer in streams:
        writer.close()
    await connection.close()
    assert sshs.processes() == {}


async def test_a_close_ends_relayed_streams(
    sshs: Sshs, connection: SshConnection, agent: FarAgent, one: Machine
) -> None:
    await forbid_forwarding(connection, one)
    reader, writer = await connection.connect(agent.path)
    await connection.close()
    assert sshs.processes() == {}
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_stream_of_a_silent_machine_is_given_up_and_leaves_no_process(
    sshs: Sshs, agent: FarAgent, one: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_smx.engines.ssh.connection._ANSWER_WITHIN", 0.5)
    connection = sshs.connect(relay=relay)
    (await connection.connect(agent.path))[1].close()
    one.cut()
    with pytest.raises(UnavailableError, match=r"did not answer within 0\.5 s"):
        await connection.connect(agent.path)
    assert sshs.processes() == sshs.masters()
    one.restore()
    reader, writer = await connection.connect(agent.path)
    assert await echoed(reader, writer, 1, b"again") == b"again"
    writer.close()


async def test_a_cancelled_connect_leaves_no_stream(connection: SshConnection, one: Machine) -> None:
    await bring_archive(connection)
    await asyncio.to_thread(one.run, f"setsid python3 -Ic '{MUTE}' >/dev/null 2>&1 </dev/null &")
    await eventually(lambda: one.run("test -S mute.sock", check=False).returncode == 0, "it listens")
    connecting = asyncio.create_task(connection.connect(f"{one.run('pwd').stdout.strip()}/mute.sock"))
    await eventually((one.home / "accepted").exists, "it accepted")
    connecting.cancel()
    await eventually((one.home / "closed").exists, "it is closed")
    assert connecting.cancelled()
