"""A remote engine, small enough to read at once: hosts of a machine that is reached by a gateway only.

The machine is a folder of this one (``ToyEngine.data_dir``). Its agents run in a mount namespace of their own, in which
the folders of ``hidden_folders`` are empty, with a clock of their own, and they are reached by :mod:`gateway`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from gateway import Gateway
from msgspec import convert
from msgspec.structs import replace
from traitlets import Bool, Dict, Float, Int, List, Unicode

from jupyter_smx.engines import untrusted_files
from jupyter_smx.engines.base import Capabilities, Observation
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.engines.machine.share import assign_devices, device_variables
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.spec.instance import InstanceType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.machine.host_folder import HostFolder
    from jupyter_smx.model.records.cluster import Handle, QueueStatus

CLOCK_VARIABLE = "TOY_MACHINE_CLOCK"
"""Seconds by which the machine's clock is ahead."""

# The wall clock alone is another one: time namespaces cannot move it, and sleeping takes as long as anywhere.
_CLOCK = f"""\
import os, time
def _shift(offset, now=time.time, now_ns=time.time_ns):
    time.time = lambda: now() + offset
    time.time_ns = lambda: now_ns() + int(offset * 1e9)
_shift(float(os.environ.get({CLOCK_VARIABLE!r}, 0)))
"""
_PYTHON = """\
#!/bin/sh
exec unshare {user} --mount --propagation private sh -c '{mounts}exec "$0" "$@"' {python} "$@"
"""
_PARENT = """\
import os, subprocess, sys
theirs, _ours = os.pipe()
os.set_inheritable(theirs, True)
subprocess.run([*sys.argv[1:], "--parent-fd", str(theirs)], close_fds=False)
"""


class ToyEngine(LocalEngine):
    """Starts agents as the local engine does, but on a machine with another view of files and another clock."""

    name: ClassVar[str] = "toy"
    gateway = Unicode(help="Socket of the gateway that leads to the machine.").tag(config=True)
    hidden_folders = List(Unicode(), help="Folders that are empty on the machine.").tag(config=True)
    clock_offset = Float(0.0, help="Seconds by which the machine's clock is ahead.").tag(config=True)
    machine_slots = Int(0, help="Number of hosts that the machine has room for; 0 is no limit.").tag(config=True)
    machine_types = List(Dict(), help="Instance types that the machine brings.").tag(config=True)
    machine_gpus = List(Unicode(), help="Names of the GPUs of the machine.").tag(config=True)
    has_parents = Bool(
        default_value=False, help="Whether each agent has a parent process with which it ends, as those of a scheduler."
    ).tag(config=True)
    shared_folders = List(Unicode(), help="Folders that the machine has, too.").tag(config=True)
    allocation_ends_at = Float(
        None, allow_none=True, help="When the machine ends its hosts, in seconds since the epoch."
    ).tag(config=True)
    reads_spools = Bool(
        default_value=False, help="Whether the spool of a host can be read after its agent has ended."
    ).tag(config=True)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # the local engine's is a class attribute
        """Say that interpreters are the machine's, and that it hands out GPUs if it has any."""
        return Capabilities(
            interpreters="remote", own_gpus=bool(self.machine_gpus), shared_folders=tuple(self.shared_folders)
        )

    @property
    def _machine(self) -> Gateway:
        return Gateway(self.gateway)

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give what would be started, with the machine's own Python."""
        return super().plan(self._resolved(request))

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Wait until the machine grants the hosts, then start them.

        :raises UnavailableError: the machine cannot be reached, or its answer was lost; the hosts may come up then.
        """
        async with aclosing(self._machine.launch(request.cluster)) as answers:
            async for status in answers:
                yield status
        self._assign_gpus(request)
        handles = super().acquire(self._resolved(request))
        if await self._machine.loses_answer():
            self._late = asyncio.create_task(_collect(handles))
            raise UnavailableError("The machine did not answer in time.", transient=True)
        async with aclosing(handles) as found:  # type: ignore[type-var]
            async for handle in found:
                yield self._dated(handle)

    async def find(self, cluster: str) -> Handle | None:
        """Ask the machine."""
        await self._machine.ask()
        handle = await super().find(cluster)
        return handle and self._dated(handle)

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Ask the machine, once for all."""
        try:
            await self._machine.ask()
        except UnavailableError:
            return [Observation.UNKNOWN for _ in handles]
        return await super().observe_all(handles)

    async def release(self, handle: Handle) -> None:
        """Free the hosts; what the machine cannot be asked now is asked again."""
        await self._machine.ask()
        await super().release(handle)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Let the gateway open a stream to the agent's socket."""
        return await self._machine.connect(self._folder(handle.cluster, host).path)

    async def resolve_interpreter(self, word: str) -> str:
        """Take a path of the machine, or the machine's own Python where none is named."""
        if word and not word.startswith("/"):
            raise RefusedError(f"python: {word!r} is not an interpreter of the machine.", field="python", value=word)
        return word

    def instance_types(self) -> Sequence[InstanceType]:
        """Give what the configuration says of the machine."""
        return convert(self.machine_types, list[InstanceType])

    def clusters_folder(self) -> None:
        """Give none: nothing of a host lies on the controller's machine."""
        return

    def spool_path(self, cluster: str, host: str) -> None:  # type: ignore[override]
        """Give none, likewise."""
        del cluster, host

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Let the machine read its disk, if it does so at all."""
        if not self.reads_spools:
            return None
        await self._machine.ask()
        spool = self._folder(cluster, host).path / "spool"
        try:
            with untrusted_files.open_file(spool, f"{job}/{name}") as found:
                found.file.seek(offset)
                return found.file.read(limit), found.size()
        except FileNotFoundError as error:
            raise ResourceNotFoundError(f"{name} is not in the spool.") from error

    def slots(self) -> int | None:
        """Give the room of the machine."""
        return self.machine_slots or None

    # The machine

    def _dated(self, handle: Handle) -> Handle:
        return replace(handle, allocation_ends_at=self.allocation_ends_at)

    def _resolved(self, request: ClusterRequest) -> ClusterRequest:
        return replace(request, python=request.python or os.fspath(self._python()))

    def _python(self) -> Path:
        """Give the machine's own Python, which hides what lies on the controller's machine only."""
        path = self._root / "bin" / "python"
        mounts = [f"mount -t tmpfs hidden {shlex.quote(folder)} && " for folder in self.hidden_folders]
        user = "" if os.geteuid() == 0 else "--user --map-root-user"
        text = _PYTHON.format(
            user=user, mounts="".join(mounts).replace("'", "'\\''"), python=shlex.quote(sys.executable)
        )
        if not path.exists():
            (self._root / "site").mkdir(parents=True, exist_ok=True)
            (self._root / "site" / "sitecustomize.py").write_text(_CLOCK)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        return path

    def _command(self, python: str, archive: Path, folder: HostFolder) -> list[str]:
        """Start it without ``-I``, which would leave the machine's clock out."""
        parent = [python, "-c", _PARENT] if self.has_parents else []
        return [*parent, python, os.fspath(archive), "serve", os.fspath(folder.path)]

    def _environment(self, folder: HostFolder) -> dict[str, str]:
        own = {"PYTHONPATH": os.fspath(self._root / "site"), CLOCK_VARIABLE: str(self.clock_offset)}
        if self.machine_gpus:
            devices = json.loads((self._gpu_records / folder.path.parent.name).read_text())[folder.path.name]
            own |= device_variables(devices, {})
        return super()._environment(folder) | own

    def _description(self, request: ClusterRequest, plan: HostSpec, limits: dict[str, object]) -> dict[str, object]:
        return super()._description(request, plan, limits) | {"courier": ""}

    @property
    def _gpu_records(self) -> Path:
        return self._root / "gpus"

    def _assign_gpus(self, request: ClusterRequest) -> None:
        """Hand out the machine's GPUs, and write down which cluster has which."""
        self._gpu_records.mkdir(parents=True, exist_ok=True)
        others = [path for path in self._gpu_records.iterdir() if path.name != request.cluster]
        live = [json.loads(path.read_text()) for path in others if not self._folders.is_released(path.name)]
        held = {gpu for hosts in live for gpus in hosts.values() for gpu in gpus}
        found = assign_devices(request.hosts, self.machine_gpus, held, "The machine")
        (self._gpu_records / request.cluster).write_text(json.dumps(found))


async def _collect(handles: AsyncIterator[Handle]) -> None:
    async for _ in handles:
        pass
