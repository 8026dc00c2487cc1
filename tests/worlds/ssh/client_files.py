"""What ``ssh`` on this side is given: configurations, known hosts, and programs that run in the world's own network."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from worlds.ssh import disk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

BEHIND = "smx-behind-one"
"""Alias of machine three, reached through machine one."""

_CONNECT = Path(__file__).with_name("connect.py")
_HOST = """\
Host {alias}
  HostName {address}
  HostKeyAlias {key}
"""
_COMMON = """\
Host smx-*
  User {user}
  IdentityFile "{keys}/key"
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile "{known_hosts}"
  GlobalKnownHostsFile /dev/null
"""


def write(folder: Path, plans: Sequence[disk.Plan], supervisor_pid: int) -> None:
    """Write them into the folder of a world.

    ``ssh_config`` works anywhere. ``ssh_config.direct`` is for programs in the world's network, as those in ``bin``.
    """
    write_config(folder, plans)
    write_known_hosts(folder, plans)
    _write_programs(folder / "bin", folder / "ssh_config.direct", supervisor_pid)


def write_config(folder: Path, plans: Sequence[disk.Plan], delayed: Collection[str] = ()) -> None:
    """Write both configurations.

    :param delayed: aliases of machines that programs in the world's network reach by the supervisor, too.
    """
    hosts = [_HOST.format(alias=plan.alias, address=plan.address, key=plan.alias) for plan in plans]
    hosts.append(_HOST.format(alias=BEHIND, address=plans[-1].address, key=plans[-1].alias) + "  ProxyJump smx-one\n")
    words = [sys.executable, "-IS", os.fspath(_CONNECT), os.fspath(folder / "dial")]
    proxy = f"  ProxyCommand {_escaped(shlex.join(words))} %n %p\n  ProxyUseFdpass yes\n"
    common = _COMMON.format(user=disk.USER, **{name: _escaped(folder / name) for name in ("keys", "known_hosts")})
    for name, patterns in (("ssh_config", ["smx-*"]), ("ssh_config.direct", delayed)):
        proxies = [f"Host {pattern}\n{proxy}" for pattern in patterns]
        (folder / name).write_text("".join([*hosts, *proxies, common]), encoding="utf-8")


def _escaped(text: str | Path) -> str:
    return os.fspath(text).replace("%", "%%")


def write_known_hosts(folder: Path, plans: Sequence[disk.Plan], without: str = "") -> None:
    """Write the host keys of all machines but one, as if that one had never been reached."""
    keys = {plan.alias: (folder / "keys" / f"host_{plan.name}.pub").read_text(encoding="utf-8") for plan in plans}
    lines = [f"{alias} {key}" for alias, key in keys.items() if alias != without]
    (folder / "known_hosts").write_text("".join(lines), encoding="utf-8")


def _write_programs(folder: Path, config: Path, supervisor_pid: int) -> None:
    folder.mkdir()
    texts = {"askpass": f"echo {shlex.quote(disk.PASSWORD)}"}
    for name in ("ssh", "scp", "sftp"):
        program = [f"--net=/proc/{supervisor_pid}/ns/net", "--", shutil.which(name) or name, "-F", os.fspath(config)]
        texts[name] = f'exec nsenter {shlex.join(program)} "$@"'
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
