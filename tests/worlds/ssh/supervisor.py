"""Process 1 of a test world: owns its network and its disks, and turns its machines on and off.

It runs in namespaces of its own for processes, mounts and the network. When it ends, the kernel ends every process of
the world and takes its mounts and network cards away. It serves two unix sockets in the world's folder. ``control``
takes one JSON object per line and answers likewise. ``dial`` takes ``ALIAS PORT`` and answers with an open TCP socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, os.fspath(Path(__file__).parents[2]))

from worlds.ssh import disk

from jupyter_smx.testing.delay_relay import DelayRelay

_SYSTEM_SIZE = 256 << 20
_CONNECT_LIMIT = 20.0
_BOOT_LIMIT = 20.0


class Supervisor:
    """Serves the requests of one world, whose files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        description = json.loads((folder / "world.json").read_text(encoding="utf-8"))
        self.plans = {plan["name"]: disk.Plan(**plan) for plan in description["machines"]}
        self.running: dict[str, tuple[asyncio.subprocess.Process, int]] = {}
        self.cuts: set[str] = set()
        self.delays: dict[str, float] = {}
        self.addresses = itertools.cycle(["10.77.0.253", "10.77.0.254"])
        self.relays: list[DelayRelay] = []

    async def prepare(self) -> None:
        """Make the network and the disks."""
        await ip(
            "link set lo up",
            "link add br0 type bridge",
            "link set br0 address 02:00:0a:4d:00:fe",
            "address add 10.77.0.254/24 dev br0",
            "link set br0 up",
            *self._neighbours(),
        )
        for plan in self.plans.values():
            disks = self.folder / plan.name
            for name, size in (("system", _SYSTEM_SIZE), ("home", disk.HOME_SIZE)):
                (disks / name).mkdir(parents=True, exist_ok=True)
                await call(f"mount -t tmpfs -o mode=755,size={size} {name} {shlex.quote(os.fspath(disks / name))}")
            disk.write(disks / "system", disks / "home", self.folder / "keys", plan)
            if plan.base:
                await self._add_library_path(disks / "system", plan)

    async def _add_library_path(self, system: Path, plan: disk.Plan) -> None:
        """Let the loader find Python's own library there, too, whose path is built into it."""
        (system / "etc/ld.so.conf.d/base.conf").write_text("/opt/base/lib\n", encoding="utf-8")
        mounts = f"mount --bind /usr usr && mount --bind {shlex.quote(plan.base)} opt/base"
        await call(f"cd {shlex.quote(os.fspath(system))} && {mounts} && ldconfig -X -r . && umount usr opt/base")

    async def start(self, name: str) -> dict[str, Any]:
        """Boot a machine; give its first process."""
        plan = self.plans[name]
        await self.kill(name)
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"),
            *("--propagation", "private", "/bin/sh", os.fspath(Path(__file__).with_name("machine.sh"))),
            *(os.fspath(self.folder / name), plan.host_name, str(plan.number), plan.base),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": disk.FULL_PATH, "HOME": "/root"},
        )
        try:
            pid = int(await self._line(process, name))
            await ip(
                f"link add name {name} type veth peer name eth0 netns {number_here(pid)}",
                f"link set dev {name} up" if name in self.cuts else f"link set dev {name} master br0 up",
            )
            process.stdin.write(b"go\n")
            await self._line(process, name)
        except BaseException:
            process.kill()  # and with it what it started
            raise
        self.running[name] = (process, pid)
        (self.folder / name / "pid").write_text(f"{pid}\n", encoding="utf-8")
        return {"pid": pid}

    async def _line(self, process: asyncio.subprocess.Process, name: str) -> str:
        line = await asyncio.wait_for(process.stdout.readline(), _BOOT_LIMIT)
        if not line:
            raise RuntimeError(f"machine {name} did not boot; {self.folder / 'supervisor.log'} says why")
        return line.decode()

    async def kill(self, name: str) -> dict[str, Any]:
        """Turn a machine off: each of its processes ends at once."""
        (self.folder / name / "pid").unlink(missing_ok=True)
        process, pid = self.running.pop(name, (None, 0))
        if process is not None:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(number_here(pid), signal.SIGKILL)
            await process.wait()
            with contextlib.suppress(RuntimeError):  # the kernel takes it away, too, but later
                await ip(f"link delete dev {name}")
        return {}

    async def cut(self, name: str) -> dict[str, Any]:
        """Let all packets to and from a machine vanish."""
        self.cuts.add(name)
        if name in self.running:
            await ip(f"link set dev {name} nomaster")
        return {}

    async def restore(self, name: str) -> dict[str, Any]:
        """Let packets pass again."""
        self.cuts.discard(name)
        if name in self.running:
            await ip(f"link set dev {name} master br0")
        return {}

    async def delay(self, name: str, seconds: float) -> dict[str, Any]:
        """Add to the round trip of each connection that is opened from now on."""
        self.delays[name] = seconds
        return {}

    async def limit_disk(self, name: str, size: int) -> dict[str, Any]:
        """Give the disk of a machine's homes another size in bytes."""
        await call(f"mount -o remount,size={size} {shlex.quote(os.fspath(self.folder / name / 'home'))}")
        return {}

    async def change_address(self) -> dict[str, Any]:
        """Take another address in the network: packets for the old one are dropped."""
        address = next(self.addresses)
        await ip("address flush dev br0", f"address add {address}/24 dev br0", *self._neighbours())
        return {}

    def _neighbours(self) -> list[str]:
        """Write neighbours down: a packet to a machine that is off vanishes, as it does behind a router."""
        return [
            f"neigh replace {plan.address} lladdr 02:00:0a:4d:00:0{plan.number} dev br0 nud permanent"
            for plan in self.plans.values()
        ]

    # Requests

    async def serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        verbs = {"start", "kill", "cut", "restore", "delay", "limit_disk", "change_address"}
        while line := await reader.readline():
            request = json.loads(line)
            try:
                verb = request.pop("do")
                answer = await getattr(self, verb)(**request) if verb in verbs else {"error": f"no verb {verb!r}"}
            except Exception as error:  # noqa: BLE001 - the caller gets it
                answer = {"error": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def serve_dial(self, asker: socket.socket) -> None:
        """Open one connection to a machine, and hand it over."""
        loop = asyncio.get_running_loop()
        with asker:
            alias, port = (await loop.sock_recv(asker, 256)).decode().split()
            name = next(plan.name for plan in self.plans.values() if plan.alias == alias)
            try:
                connection = await self._connect(name, int(port))
            except (OSError, asyncio.TimeoutError) as error:
                reason = os.strerror(error.errno) if getattr(error, "errno", None) else "Connection timed out"
                await loop.sock_sendall(asker, reason.encode())
                return
            with connection:
                socket.send_fds(asker, [b"\0"], [connection.fileno()])

    async def _connect(self, name: str, port: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(connection, (self.plans[name].address, port)), _CONNECT_LIMIT)
        except BaseException:
            connection.close()
            raise
        if self.delays.get(name):
            return await self._delayed(connection, self.delays[name])
        connection.setblocking(True)
        return connection

    async def _delayed(self, connection: socket.socket, seconds: float) -> socket.socket:
        theirs, ours = socket.socketpair()
        relay = DelayRelay(seconds)
        self.relays.append(relay)
        relay.join(await asyncio.open_connection(sock=connection), await asyncio.open_unix_connection(sock=ours))
        return theirs

    async def accept_dials(self, server: socket.socket) -> None:
        """Serve each connection on the dial socket, without end."""
        loop = asyncio.get_running_loop()
        tasks = set()
        while True:
            asker, _ = await loop.sock_accept(server)
            asker.setblocking(False)
            task = asyncio.create_task(self.serve_dial(asker))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


def number_of_starter() -> int:
    """Give this process's number as its starter counts, whose ``/proc`` is still mounted."""
    return int(Path("/proc/self").readlink().name)


def number_here(pid: int) -> int:
    """Give the number of a machine's first process in this process's namespace; ``/proc`` is that of the starter."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return int(numbers[-2])


async def ip(*commands: str) -> None:
    """Run commands of ``ip``, all in one process."""
    await call("ip -batch -", "\n".join(commands))


async def call(words: str, text: str = "") -> None:
    """Run a command line of the shell."""
    process = await asyncio.create_subprocess_shell(
        words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate(text.encode())
    if process.returncode:
        raise RuntimeError(f"{words} {text}: {output.decode().strip()}")


async def main(folder: Path, *, tied: bool) -> None:
    """Make the world, say so, and serve it until it is to end."""
    supervisor = Supervisor(folder)
    await supervisor.prepare()
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    if tied:  # nothing comes: the other end closes when its process ends
        loop.add_reader(0, end.set)
    dial = socket.socket(socket.AF_UNIX)
    dial.bind(os.fspath(folder / "dial"))
    (folder / "dial").chmod(0o666)
    dial.listen(64)
    dial.setblocking(False)
    accepting = asyncio.create_task(supervisor.accept_dials(dial))
    await asyncio.start_unix_server(supervisor.serve_control, folder / "control")
    sys.stdout.write(f"{number_of_starter()}\n")
    sys.stdout.flush()
    await end.wait()
    accepting.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), tied="--tied" in sys.argv))
