"""What the tests of the connection share: the agent's side of a stream, and what a connection left on this machine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.agent import wire
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.engines.ssh.commands import SshOptions
from jupyter_smx.engines.ssh.connection import SshConnection
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self
    from worlds.ssh.machine import Machine
    from worlds.ssh.ssh_world import SshWorld

ARCHIVE = ".agent.pyz"
_AGENT = f"""\
import os, socket, sys, threading
sys.path.insert(0, os.path.expanduser("~/{ARCHIVE}"))
from jupyter_smx.agent import wire

def serve(stream):
    while True:
        try:
            frame = wire.receive(stream)
        except (EOFError, OSError):
            return
        stream.sendall(wire.encode({{"re": frame.header["id"]}}, frame.body))

server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("listens", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


class Sshs:
    """Makes connections with the world's ``ssh`` as their program, each with the same folder for control sockets."""

    def __init__(self, world: SshWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.connections: list[SshConnection] = []

    def options(self, **words: object) -> SshOptions:
        """Give options that end waiting soon."""
        usual = {"program": os.fspath(self.world.bin / "ssh"), "connect_timeout": 2.0, "control_folder": self.folder}
        return SshOptions(**{**usual, **words})

    def connect(
        self, alias: str = "smx-one", relay: Callable[[str], str] | None = None, **words: object
    ) -> SshConnection:
        """Make a connection that is closed after the test."""
        made = SshConnection(alias, self.options(**words), relay)
        self.connections.append(made)
        return made

    def processes(self) -> dict[int, str]:
        """Give the commands of this machine's processes that use a control socket of the folder, by their numbers."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue
            if os.fspath(self.folder) in command:
                found[int(path.parent.name)] = command
        return found

    def masters(self) -> dict[int, str]:
        """Give the masters, or the processes that are about to be one."""
        return {pid: command for pid, command in self.processes().items() if " -N -f " in command}

    async def only_masters_are_left(self) -> None:
        """Wait until no client of a master runs."""
        await eventually(lambda: self.processes() == self.masters(), "clients of a master end")


def logins(machine: Machine) -> int:
    """Count the logins since the machine was made."""
    return machine.log().count("Accepted publickey")


async def bring_archive(connection: SshConnection) -> None:
    """Put the agent's archive into the account's home."""
    archive = agent_zipapp.pack(agent_zipapp.members())
    assert await connection.run(f"cat > {ARCHIVE}; stat -c %s {ARCHIVE}", archive) == (0, b"%d\n" % len(archive), "")


def relay(socket: str) -> str:
    """Give the command that the engine relays streams with."""
    return f"python3 -I ~/{ARCHIVE} remote relay / {socket}"


class FarAgent:
    """Answers each frame with its own bytes, as an agent would, at a socket of the machine, while the block runs."""

    def __init__(self, machine: Machine, connection: SshConnection, path: str = "/tmp/far.sock") -> None:  # noqa: S108
        self.machine = machine
        self.path = path
        self._connection = connection

    async def __aenter__(self) -> Self:
        await bring_archive(self._connection)
        (self.machine.home / "far_agent.py").write_text(_AGENT, encoding="utf-8")
        # Without a session of ssh: sessions are what is tested.
        words = f"rm -f {self.path}; setsid python3 -I far_agent.py {self.path} >far.log 2>&1 </dev/null &"
        await asyncio.to_thread(self.machine.run, words)
        await eventually(lambda: (self.machine.home / "far.log").read_bytes() == b"listens\n", "the agent listens")
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it; its socket stays."""
        for each in self.machine.processes():
            if "far_agent.py" in each.command:
                os.kill(each.pid, 9)


async def echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, body: bytes) -> bytes:
    """Send a frame and give the bytes of its answer."""
    writer.write(wire.encode({"id": number}, body))
    frame = await asyncio.wait_for(wire.read(reader), 20)
    assert frame.header["re"] == number
    return frame.body
