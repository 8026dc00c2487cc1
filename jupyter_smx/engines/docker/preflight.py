"""Test whether the containers of a daemon share folders, users and sockets with this machine.

A daemon may listen here and have its containers elsewhere: in a virtual machine, or under other users.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from jupyter_smx.agent.system.files import host_layout, rmtree
from jupyter_smx.engines.docker.containers import container_spec, probe_container
from jupyter_smx.engines.docker.containers.probe_container import Probe
from jupyter_smx.engines.docker.daemon.daemon_client import DaemonError
from jupyter_smx.engines.docker.daemon.users import maps_users
from jupyter_smx.engines.machine.request_validation import not_writable_error
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.daemon.users import ContainerUser
    from jupyter_smx.engines.docker.images.image import InspectedImage
    from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
    from jupyter_smx.engines.machine.host_folder import HostFolder

_TIMEOUT = 60.0
"""Seconds that a container may take until it has tried everything."""
_PROBE_SCRIPT = f"""
import os, socket, sys
os.chdir({container_spec.HOST_FOLDER!r})
token = sys.argv[1]
if open("token").read() != token:
    sys.exit("the file in it is another one")
line = socket.socket(socket.AF_UNIX)
line.bind({host_layout.SOCKET!r})
line.listen(1)
with open("written", "w") as file:
    file.write(token)
os.rename("written", "answer")
line.settimeout({_TIMEOUT})
line.accept()[0].sendall(token.encode())
"""
_RULE = "A host and the controller exchange files in a shared folder, and the host listens at a socket in it."


class _ProbeExitError(Exception):
    """The container ended before all its tests; the text has its output."""


class Preflight:
    """Tests of one daemon for its hosts; the results hold as long as the daemon is the same."""

    def __init__(
        self,
        daemon: Daemon,
        folders: ClusterFolders,
        labels: Mapping[str, str],
        users: ContainerUser,
        under_way: set[str],
        seconds: float = _TIMEOUT,
    ) -> None:
        self._daemon = daemon
        self._folders = folders
        self._labels = labels
        self._users = users
        self._under_way = under_way
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self.has_passed = False
        """True if hosts can run here, as far as it was tested."""

    async def check(self, image: InspectedImage) -> None:
        """Check once, with an image that has a Python, that hosts can run at this daemon.

        :raises RefusedError: hosts see folders of another machine, or run as a user without access to ours; transient
            if the check timed out.
        :raises UnavailableError: the daemon does not answer.
        """
        async with self._lock:
            if not self.has_passed:
                await self._check_once(image, self._users.of_image(image.parts.user_numbers()))
                self.has_passed = True

    async def _check_once(self, image: InspectedImage, users: ContainerUser) -> None:
        probe = Probe(self._daemon, self._under_way, self._seconds)
        room = self._folders.host(probe.name, "ground")
        try:
            async with probe:
                await asyncio.to_thread(self._make_folder, room, probe.token, users)
                why = await self._run_probe(probe, image, room, users)
        finally:
            await asyncio.to_thread(rmtree.remove_if_possible, str(room.path.parent))
        if why:
            raise await self._refusal(why)

    def _make_folder(self, room: HostFolder, token: str, users: ContainerUser) -> None:
        try:
            self._folders.clusters.mkdir(mode=0o700, parents=True, exist_ok=True)
            room.make()
            (room.path / "token").write_text(token)
            users.chown(room.path, room.path / "token")
        except OSError as problem:
            raise not_writable_error(self._folders.root, problem) from problem

    async def _run_probe(self, probe: Probe, image: InspectedImage, room: HostFolder, users: ContainerUser) -> str:
        """Test the mounted folder in a container; return the fault, "" if there is none."""
        seat = container_spec.bind_mount(str(room.path), container_spec.HOST_FOLDER, closed=False)
        words = image.command("-I", "-c", _PROBE_SCRIPT, probe.token)
        try:
            config = probe_container.container_config(
                image.id, words, users.name(), self._labels, self._daemon.kind, seat
            )
            if image.parts.entrypoint:
                probe_container.prepare_entrypoint(config, image.parts.workdir, self._daemon.kind)
            config["HostConfig"]["Init"] = True  # as a host's; some daemons have no program for that
            await probe.start(config)
        except DaemonError as problem:
            if not any(sign in problem.message.lower() for sign in ("mount", "bind")):
                raise self._daemon.operation_error("try what hosts share with this machine", problem) from problem
            return problem.message
        try:
            answers = probe_container.wait_for_file(
                (room.path / "answer").exists, partial(self._check_running, probe.name)
            )
            await asyncio.wait_for(answers, self._seconds)
        except asyncio.TimeoutError:
            raise self._timeout_error() from None
        except _ProbeExitError as end:
            return str(end)
        return await _check_socket(room, probe.token)

    async def _check_running(self, name: str) -> None:
        state = (await self._daemon.inspect(name) or {}).get("State", {})
        if state.get("Status") in probe_container.ENDED_STATES:
            words = await probe_container.log_tail(self._daemon, name, 1)
            raise _ProbeExitError(words or f"it ended with exit code {state.get('ExitCode')}")

    def _timeout_error(self) -> RefusedError:
        return RefusedError(
            f"docker_host: a container of {self._daemon.kind.name} at {self._daemon.url} took longer than "
            f"{format_duration(self._seconds)} to write into a folder of this machine.",
            field="docker_host",
            value=self._daemon.url,
            rule=_RULE,
            cure="This machine may be busy; the controller will try again.",
            transient=True,
        )

    async def _refusal(self, why: str) -> RefusedError:
        name, folder = self._daemon.kind.name, str(self._folders.root)
        if maps_users(await self._daemon.info()):
            cure = "This daemon maps users (userns-remap): use one that does not, or a rootless daemon of this user."
        else:
            cure = (
                "Use a daemon on this machine, not in a virtual machine, that runs as root or as this user, "
                "and a data folder on a local disk (JUPYTER_SMX_DATA_DIR). If Jupyter runs in a container, the "
                "data folder needs the same path inside and outside."
            )
        return RefusedError(
            f"docker_host: containers of {name} at {self._daemon.url} do not share {folder!r} with the controller "
            f"({why}).",
            field="docker_host",
            value=self._daemon.url,
            rule=_RULE,
            cure=f"{cure} Set it with DOCKER_HOST or DockerEngine.docker_host.",
        )


async def _check_socket(room: HostFolder, token: str) -> str:
    """Connect to the socket; return why the expected answer did not come."""
    try:
        reader, writer = await room.dial()
    except UnavailableError as problem:
        return f"its socket is unreachable: {problem.__cause__}"
    said = b""
    try:
        with suppress(OSError, asyncio.TimeoutError):
            said = await asyncio.wait_for(reader.read(len(token)), _TIMEOUT)
    finally:
        writer.close()
    return "" if said == token.encode() else "another process answers at its socket"
