"""Whether the containers of a daemon share folders, users and sockets with this machine: tried once, as a host would.

A daemon may listen here and have its containers elsewhere: in a virtual machine, or under other users.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.engines import docker_plan
from jupyter_smx.engines.docker_daemon import CONFLICT, NOT_THERE, DaemonError, remove
from jupyter_smx.engines.docker_image import probe
from jupyter_smx.engines.docker_users import maps_users
from jupyter_smx.engines.request_check import not_writable
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.engines.cluster_folders import ClusterFolders
    from jupyter_smx.engines.docker_daemon import Daemon
    from jupyter_smx.engines.docker_image import Image
    from jupyter_smx.engines.docker_users import Users
    from jupyter_smx.engines.host_folder import HostFolder

_SECONDS = 60.0
"""Seconds that a container may take until it has tried everything."""
_LOOK_AGAIN = 0.01
_LOOKS = 20
"""Looks at a file for one at the container, as where a host comes up."""
_TRY = f"""
import os, socket, sys
os.chdir({docker_plan.ROOM!r})
token = sys.argv[1]
if open("token").read() != token:
    sys.exit("the file in it is another one")
line = socket.socket(socket.AF_UNIX)
line.bind("agent.sock")
line.listen(1)
with open("written", "w") as file:
    file.write(token)
os.rename("written", "answer")
line.settimeout({_SECONDS})
line.accept()[0].sendall(token.encode())
"""
_RULE = (
    "A host and the controller share a folder: each reads what the other wrote there, and the host answers at a "
    "socket in it."
)


class Ground:
    """What lies under the hosts of one daemon: nothing of it changes while the daemon is the same."""

    def __init__(
        self,
        daemon: Daemon,
        folders: ClusterFolders,
        labels: Mapping[str, str],
        users: Users,
        under_way: set[str],
        seconds: float = _SECONDS,
    ) -> None:
        self._daemon = daemon
        self._folders = folders
        self._labels = labels
        self._users = users
        self._under_way = under_way
        self._seconds = seconds
        self._one_by_one = asyncio.Lock()
        self._is_firm = False

    async def check(self, image: Image) -> None:
        """See once, with an image that has a Python, that hosts can live here.

        :raises RefusedError: they see another machine's folders, or run as somebody whom these are closed to.
        :raises UnavailableError: the daemon does not answer.
        """
        async with self._one_by_one:
            if not self._is_firm:
                await self._try(image)
                self._is_firm = True

    async def _try(self, image: Image) -> None:
        token = secrets.token_hex(6)
        name = f"jupyter-smx-probe-{token}"
        room = self._folders.host(name, "ground")
        self._under_way.add(name)
        try:
            await asyncio.to_thread(self._make, room, token)
            why = await self._start(name, image, room, token)
            why = why or await self._wait(name, room) or await _call(room, token)
            if why:
                raise await self._refusal(why)
        finally:
            await self._remove(name)
            await asyncio.to_thread(shutil.rmtree, room.path.parent, ignore_errors=True)
            self._under_way.discard(name)

    def _make(self, room: HostFolder, token: str) -> None:
        try:
            self._folders.clusters.mkdir(mode=0o700, parents=True, exist_ok=True)
            room.make()
            (room.path / "token").write_text(token)
            self._users.own(room.path, room.path / "token")
        except OSError as problem:
            raise not_writable(self._folders.root, problem) from problem

    async def _start(self, name: str, image: Image, room: HostFolder, token: str) -> str:
        """Start a container; gives why that does not go, "" where it does."""
        config = probe(image.id, image.python, self._users.name(), self._labels)
        config["Entrypoint"] = [image.python, "-I", "-c", _TRY, token]
        config["HostConfig"]["Mounts"] = [docker_plan.bind(str(room.path), docker_plan.ROOM, closed=False)]
        try:
            await self._daemon.insist(lambda api: api.create_container_from_config(config, name))
            await self._daemon.ask(lambda api: api.start(name), self._seconds)
        except DaemonError as problem:
            if not any(sign in problem.words.lower() for sign in ("mount", "bind")):
                raise self._daemon.trouble("try what hosts share with this machine", problem) from problem
            return problem.words
        return ""

    async def _wait(self, name: str, room: HostFolder) -> str:
        """Wait until it has written an answer; gives why there is none."""
        loop = asyncio.get_running_loop()
        end, looks = loop.time() + self._seconds, 0
        while not await asyncio.to_thread((room.path / "answer").exists):
            state = (await self._daemon.inspect(name) or {}).get("State", {}) if looks % _LOOKS == 0 else {}
            if state.get("Status") in ("exited", "dead"):
                return await self._last_words(name) or f"it ended with exit code {state.get('ExitCode')}"
            if loop.time() > end:
                return f"it wrote nothing there within {self._seconds:g} s"
            looks += 1
            await asyncio.sleep(_LOOK_AGAIN)
        return ""

    async def _last_words(self, name: str) -> str:
        try:
            said: bytes = await self._daemon.ask(lambda api: api.logs(name, tail=1))
        except DaemonError:
            return ""
        return said.decode(errors="replace").strip()

    async def _refusal(self, why: str) -> RefusedError:
        if maps_users(await self._daemon.info()):
            cure = "It maps users (userns-remap): take one that does not, or a rootless one of this user."
        else:
            cure = (
                "Take one that runs on this machine itself and not in a virtual one, as root or as this user, and a "
                "data folder on a disk of its own (JUPYTER_SMX_DATA_DIR)."
            )
        return RefusedError(
            f"docker_host: containers of Docker at {self._daemon.url} do not share {str(self._folders.root)!r} with "
            f"the controller ({why}).",
            field="docker_host",
            value=self._daemon.url,
            rule=_RULE,
            cure=f"{cure} DOCKER_HOST, or DockerEngine.docker_host, says which.",
        )

    async def _remove(self, name: str) -> None:
        try:
            await self._daemon.ask(lambda api: remove(api, name), self._seconds)
        except DaemonError as problem:
            if problem.status not in (NOT_THERE, CONFLICT):  # somebody else removes it, or has
                raise self._daemon.trouble("remove a container", problem) from problem


async def _call(room: HostFolder, token: str) -> str:
    """Connect to the socket; gives why nobody answers there as expected."""
    try:
        reader, writer = await room.dial()
    except UnavailableError as problem:
        return f"its socket cannot be reached: {problem.__cause__}"
    said = b""
    try:
        with suppress(OSError, asyncio.TimeoutError):
            said = await asyncio.wait_for(reader.read(len(token)), _SECONDS)
    finally:
        writer.close()
    return "" if said == token.encode() else "somebody else answers at its socket"
