"""Build the argument lists of the system's ``ssh``; pure.

A machine has one master connection. Its clients read no configuration of the user: ``RemoteCommand`` or forwardings of
an alias there are meant for a person's own sessions.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_MASTER = "jupyter_smx: no master connection"
"""Error output of a client that could not open a session over the master."""
SESSION_OPENED = b"jupyter_smx: session opened\n"
"""First output of a session opened by :func:`announced`, after the output of the account's startup files."""
SERVER_ALIVE_INTERVAL, SERVER_ALIVE_COUNT = 15, 3
"""Seconds between two requests to a silent machine, and how many of them a master waits for."""
_PERSIST = 600
"""Seconds for which a master stays without a session: a controller that was killed leaves it."""
_MAX_PATH = (103 if sys.platform == "darwin" else 107) - 17
"""Bytes of a control path: ssh first makes a unix socket with 17 characters more, which has 107, on macOS 103."""
_ALIAS = re.compile(r"[A-Za-z0-9_\[:][A-Za-z0-9_.:@%+\[\]-]*")
_NONE = "none"


class SshOptions(Struct, frozen=True, kw_only=True):
    """Settings of the system's ``ssh`` for one machine.

    ``config_file`` is ``ssh -F``, ``control_folder`` a short folder of this user alone, ``connect_timeout`` in seconds.
    ``extra`` are settings as ``Name=value`` (``ssh -o``). ``environment`` is added to the one of this process.
    """

    control_folder: Path
    program: str = "ssh"
    config_file: str = ""
    connect_timeout: float = 10.0
    extra: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


class AliasConfig(Struct, frozen=True):
    """Configuration of the user for an alias, as ``ssh -G`` prints it."""

    host_name: str = ""
    control_path: str = ""
    jump: str = ""
    identity_files: tuple[str, ...] = ()


def check_alias(alias: str) -> None:
    """Check that ssh treats a name as the name of a machine, never as an option.

    :raises RefusedError: it would not.
    """
    if not _ALIAS.fullmatch(alias):
        raise RefusedError(
            f"{alias!r} is not the name of a machine.",
            field="machine",
            value=alias,
            rule="A machine is an alias of ~/.ssh/config, a host name, or user@host.",
            cure="Correct the name, as in --engine ssh:gpu-box.",
        )


def control_path(alias: str, options: SshOptions) -> Path:
    """Name the control socket of the machine's master: a function of the alias and of how ssh is called.

    :raises RefusedError: the path is too long for a unix socket.
    """
    known = "\0".join((alias, options.program, options.config_file, *options.extra))
    path = options.control_folder / hashlib.sha256(known.encode()).hexdigest()[:12]
    if len(os.fsencode(path)) > _MAX_PATH:
        raise RefusedError(
            f"The folder {options.control_folder} cannot have the control socket of ssh: its path is too long.",
            field="control_folder",
            value=options.control_folder,
            rule=f"The path of the socket has {len(os.fsencode(path))} bytes; ssh can use {_MAX_PATH}.",
            cure="Configure a folder with a shorter path.",
        )
    return path


def forward_path(control: Path, remote: str) -> Path:
    """Name the local socket that leads to the socket ``remote`` of the machine."""
    return control.with_name(f"{control.name}-{hashlib.sha256(remote.encode()).hexdigest()[:10]}")


def config_words(alias: str, options: SshOptions) -> list[str]:
    """Build the command that prints the configuration of an alias and connects to nothing."""
    return [*_program(options), *_set(options.extra), "-G", "--", alias]


def parse_config(text: str) -> AliasConfig:
    """Read what ``ssh -G`` printed."""
    values = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)

    def value(name: str) -> str:
        return "" if values.get(name, _NONE) == _NONE else values[name]

    return AliasConfig(
        host_name=value("hostname"),
        control_path=value("controlpath"),
        jump=value("proxyjump"),
        identity_files=tuple(line[13:] for line in text.splitlines() if line.startswith("identityfile ")),
    )


def is_configured(dump: str, dump_of_other: str) -> bool:
    """Return True if the configuration has settings for an alias that do not apply to every name.

    Both are outputs of ``ssh -G``; lines that only repeat the name do not count.
    """
    return _settings(dump) != _settings(dump_of_other)


def _settings(dump: str) -> list[str]:
    lines = dump.splitlines()
    return [line for line in lines if not line.startswith(("host ", "hostname ", "controlpath "))] + [
        "renamed" for line in lines if line.startswith("hostname ") and f"host {line[9:]}" not in lines
    ]


def master_words(alias: str, path: Path, log: Path, options: SshOptions) -> list[str]:
    """Build the command that opens the master connection, which goes to the background when it is open."""
    timeout = max(1, round(options.connect_timeout))
    own = ["ControlMaster=yes", f"ControlPath={path}", "BatchMode=yes"]
    settings = [
        f"ControlPersist={_PERSIST}",
        f"ConnectTimeout={timeout}",
        f"ServerAliveInterval={SERVER_ALIVE_INTERVAL}",
        f"ServerAliveCountMax={SERVER_ALIVE_COUNT}",
        "StreamLocalBindUnlink=yes",
        "ExitOnForwardFailure=yes",
        # What a person's own sessions have beside the shell: ports in use would end the master.
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "RequestTTY=no",
        "Tunnel=no",
        # The reason of a failure is read from the log.
        "LogLevel=INFO",
    ]
    # Of two values ssh uses the first: configured ones precede all but those that make it a master.
    words = [*_program(options), "-N", "-f", "-x", "-a", "-T", "-E", str(log)]
    return [*words, *_set([*own, *options.extra, *settings]), "--", alias]


def master_command(alias: str, path: Path | str, options: SshOptions) -> str:
    """Write the command by which a person opens the master connection, for a sentence."""
    return shlex.join([*_program(options), "-M", "-N", "-f", *_set([f"ControlPath={path}", *options.extra]), alias])


def exit_command(alias: str, path: Path | str, options: SshOptions) -> str:
    """Write the command by which a person ends a master connection, for a sentence."""
    return shlex.join([options.program, *_set([f"ControlPath={path}"]), "-O", "exit", alias])


def control_words(alias: str, path: Path | str, verb: str, options: SshOptions) -> list[str]:
    """Build a command for a running master: ``check``, ``exit``, or another verb of ``ssh -O``."""
    return [*_client(path, options), "-O", verb, "--", alias]


def forward_words(alias: str, path: Path | str, verb: str, sockets: tuple[Path, str], options: SshOptions) -> list[str]:
    """Build the command that has the master ``forward`` a local socket to one of the machine, or ``cancel`` that."""
    local, remote = (str(socket).replace("\\", "\\\\").replace(":", "\\:") for socket in sockets)
    return [*_client(path, options), "-O", verb, "-L", f"{local}:{remote}", "--", alias]


def session_words(alias: str, path: Path | str, command: str, options: SshOptions) -> list[str]:
    """Build a session over the master; it connects to nothing by itself, and then prints :data:`NO_MASTER`."""
    # Its own output stays open until the sentence is written: ssh would be faster.
    proxy = f"ProxyCommand=sh -c 'echo {NO_MASTER} >&2'"
    return [*_client(path, options), "-T", *_set([proxy, "LogLevel=INFO"]), "--", alias, command]


def announced(command: str) -> str:
    """Extend a command so that its output begins with :data:`SESSION_OPENED`."""
    return f"echo '{SESSION_OPENED.decode().strip()}'; {command}"


def terminal_words(alias: str, path: Path | str, command: str, options: SshOptions) -> list[str]:
    """Build a session for a person's terminal: over the master if it runs, else over a connection of its own."""
    own = ["ControlMaster=no", f"ControlPath={path}", "RemoteCommand=none", "ClearAllForwardings=yes"]
    # The terminal need not have the variables that the controller has, such as the socket of a key agent.
    variables = [f"{name}={value}" for name, value in options.environment.items()]
    client = [*(["env", *variables] if variables else []), *_program(options)]
    return [*client, "-t", "-x", "-a", *_set([*own, *options.extra]), "--", alias, command]


def environment(options: SshOptions, ours: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a non-interactive ssh: it opens no window, and its helpers run in ``sh``."""
    return {**ours, **options.environment, "SSH_ASKPASS_REQUIRE": "never", "SHELL": "/bin/sh"}


def _program(options: SshOptions) -> list[str]:
    return [options.program, *(["-F", options.config_file] if options.config_file else [])]


def _client(path: Path | str, options: SshOptions) -> list[str]:
    return [options.program, "-F", os.devnull, *_set(["ControlMaster=no", f"ControlPath={path}", "BatchMode=yes"])]


def _set(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("-o", setting)]
