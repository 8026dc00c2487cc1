"""The SSH engine: hosts on machines that the system's ``ssh`` reaches, with the user's own configuration of it."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from traitlets import Dict, Float, List, TraitError, Unicode, validate

from jupyter_smx.data_folder.short_folder import RUNTIME_VARIABLE, make_short_folder
from jupyter_smx.engines.remote.machine import MachineOptions
from jupyter_smx.engines.remote.remote_engine import RemoteEngine
from jupyter_smx.engines.ssh import host_aliases
from jupyter_smx.engines.ssh.commands import SshOptions
from jupyter_smx.engines.ssh.connection import SshConnection
from jupyter_smx.engines.ssh.failures import not_started
from jupyter_smx.model.errors import RefusedError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traitlets import Bunch

_MAX_FOLDER = 70
"""Bytes of a folder of control sockets: ssh adds a name and 17 characters, and a unix socket has 107 in all."""


class SshEngine(RemoteEngine):
    """Runs hosts on machines that ``ssh`` reaches: ``ssh`` for all that are configured, ``ssh:NAME`` for one.

    NAME is a machine of ``SshEngine.machines``, an alias of the user's ``~/.ssh/config``, or ``USER@ADDRESS``.
    """

    name: ClassVar[str] = "ssh"
    takes_target: ClassVar[bool] = True

    machines = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help=(
            "Machines by the alias that ssh knows them by, each with options: slots, python, folder, environments, "
            "gpus, cpus, memory_gib, address."
        ),
    ).tag(config=True)
    program = Unicode("ssh", help="The ssh client to run.").tag(config=True)
    config_file = Unicode("", help="Configuration of ssh; empty means that of the user, ~/.ssh/config.").tag(
        config=True
    )
    options = List(Unicode(), help="More options of ssh, such as ``ProxyJump=bastion``.").tag(config=True)
    connect_timeout = Float(10.0, min=1.0, help="Seconds until a machine must answer a connection.").tag(config=True)
    variables = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help=(
            "Environment variables of the ssh client, such as SSH_AUTH_SOCK or KRB5CCNAME. Others are those of the "
            "process that started the controller."
        ),
    ).tag(config=True)

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._connections: dict[str, SshConnection] = {}
        self._has_client = False

    @validate("machines")
    def _check_machines(self, proposal: Bunch) -> dict[str, dict[str, object]]:
        try:
            msgspec.convert(proposal.value, dict[str, MachineOptions])
        except msgspec.ValidationError as problem:
            raise TraitError(f"machines: the options of a machine are invalid: {problem}") from problem
        return dict(proposal.value)

    def machine_options(self) -> Mapping[str, MachineOptions]:
        """Return the machine after the colon of the engine's name, else all that are configured."""
        configured = {name: msgspec.convert(options, MachineOptions) for name, options in self.machines.items()}
        if not self.target:
            return configured
        return {self.target: configured.get(self.target, MachineOptions())}

    def machine(self, name: str) -> SshConnection:
        """Return the connection to a machine, created on first use."""
        if name not in self._connections:
            self._connections[name] = SshConnection(name, self._ssh_options(), lambda path: self._relay(name, path))
        return self._connections[name]

    def check_target(self) -> None:
        """Refuse the engine where it has no machine.

        :raises RefusedError: nothing follows its name, and none is configured.
        """
        if not self.target and not self.machines:
            raise RefusedError(
                "--engine: 'ssh' has no machines.",
                field="engine",
                value=self.name,
                rule="Machines are configured in c.SshEngine.machines, or named by an alias of ssh.",
                cure="Write --engine ssh:NAME, with a name that `ssh NAME` takes.",
            )

    def check_installed(self) -> None:
        """Check, until it succeeds once, that there is an ssh client.

        :raises RefusedError: there is none.
        """
        if self._has_client:
            return
        program, path = str(self.program), self.variables.get("PATH")
        if shutil.which(program, path=path) is None:
            raise not_started(program, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        self._has_client = True

    def target_names(self) -> Sequence[str]:
        """List the machines of the configuration, then the aliases of the user's ``~/.ssh/config``. Blocks."""
        return [*dict.fromkeys((*self.machines, *host_aliases.read(self._config_path()).names))]

    async def resolve_interpreter(self, word: str) -> str:
        """Find the interpreter, and refuse an unknown machine: both are checked at the submission.

        :raises RefusedError: there is no such interpreter, or no such machine.
        """
        if self.target and self.target not in self.machines:
            await self._check_alias(self.target)
        return await super().resolve_interpreter(word)

    async def close(self) -> None:
        """Close the master connections that were opened here; one with a person's shell exits with that shell."""
        await super().close()
        await asyncio.gather(*(connection.retire() for connection in self._connections.values()))

    async def _check_alias(self, alias: str) -> None:
        known = await asyncio.to_thread(host_aliases.read, self._config_path())
        address = alias.rpartition("@")[2]
        if alias in known.names or known.matches(alias):
            return
        try:
            await asyncio.get_running_loop().getaddrinfo(address, None)
        except socket.gaierror as problem:
            if problem.errno != socket.EAI_NONAME:
                return  # without a network nothing is known of any name
            raise RefusedError(
                f"--engine: ssh knows no machine {alias!r}.",
                field="engine",
                value=self.name,
                rule=f"It is no alias in {self._config_path()}, and no address of that name is known.",
                cure=suggest_names(alias, [*known.names, *self.machines]) or f"Try it: ssh {alias}",
            ) from problem

    def _config_path(self) -> Path:
        return Path(str(self.config_file) or "~/.ssh/config").expanduser()

    def _relay(self, name: str, path: str) -> str:
        return self._account(name).command("relay", path)

    def _ssh_options(self) -> SshOptions:
        return SshOptions(
            program=str(self.program),
            config_file=str(self.config_file),
            control_folder=control_folder(self._folder),
            connect_timeout=float(self.connect_timeout),
            extra=tuple(self.options),
            environment=dict(self.variables),
        )


def control_folder(folder: Path) -> Path:
    """Choose the folder of control sockets: below the engine's own, else a short one elsewhere; makes that.

    :raises RefusedError: no short one can be made.
    """
    own = folder / "control"
    if len(os.fsencode(own)) <= _MAX_FOLDER:
        return own
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_short_folder(folder / "control.folder", os.environ.get(RUNTIME_VARIABLE, ""))
    except OSError as error:
        raise RefusedError(
            f"--engine: {error.filename or folder} cannot be used: {error.strerror or error}.",
            field="engine",
            value="ssh",
            rule=f"The control sockets of ssh lie there, because {own} is too long for them.",
            cure="Make it writable, or set JUPYTER_SMX_DATA_DIR to a short path.",
        ) from error
