"""Programs that ``mpirun`` starts on each host, in a folder of one job with the same path on all hosts.

``reach`` is called instead of ``ssh``. ``rank`` starts a rank of a job on several machines, with the paths of its host:
the interpreter, the script and the working folder can lie elsewhere on each machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping

from jupyter_smx.agent.paths import AWS_URL_PREFIX, AWS_VARIABLES, ML, SDK_CONFIG
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.paths import HostInfo

REMOTE_SHELL, RANK = "reach", "rank"
_SETTINGS, _REFUSAL = "hosts.json", "refusal"
_TOP = "/tmp"  # noqa: S108 - every machine has it, and the folder in it is new and private
_INTERFACE = "NCCL_SOCKET_IFNAME"
_HOST_PREFIXES = (AWS_URL_PREFIX, SDK_CONFIG)
"""Prefixes of variables that lead clients of AWS to the front, and whose values differ between hosts."""


class Programs:
    """The folder with the programs; on the leading host it also has what ``reach`` needs and reports."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @property
    def remote_shell(self) -> str:
        """Return the path of the program that mpirun calls instead of ssh."""
        return os.path.join(self._folder, REMOTE_SHELL)

    @property
    def rank(self) -> str:
        """Return the path of the program that starts a rank."""
        return os.path.join(self._folder, RANK)

    def write_settings(self, settings: Dict[str, Any]) -> None:
        """Write what ``reach`` needs to connect to other machines; only this user can read the key in it."""
        path = os.path.join(self._folder, _SETTINGS)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(settings, file)

    def read_settings(self) -> Dict[str, Any]:
        """Read what :meth:`write_settings` wrote; {} if the hosts share a machine."""
        try:
            with open(os.path.join(self._folder, _SETTINGS), encoding="utf-8") as file:
                settings: Dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        settings["ends"] = {host: (address, port) for host, (address, port) in settings["ends"].items()}
        return settings

    def write_refusal(self, sentence: str) -> None:
        """Write why another host cannot take part; the first sentence counts."""
        with contextlib.suppress(OSError), open(os.path.join(self._folder, _REFUSAL), "x", encoding="utf-8") as file:
            file.write(sentence)

    def read_refusal(self) -> str:
        """Return why another host cannot take part, "" if all can."""
        try:
            with open(os.path.join(self._folder, _REFUSAL), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""


def remote_shell_text(job: str) -> str:
    """Return the program that mpirun calls instead of ssh; its first argument is its own path."""
    words = [sys.executable, "-I", process.entry(), "reach", job]
    return f'#!/bin/sh\nexec {" ".join(map(shlex.quote, words))} "$0" "$@"\n'


def rank_text(folder: str, variables: Mapping[str, str], command: List[str]) -> str:
    """Return the program that starts a rank in a working folder; mpirun has set the leading host's variables."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    start = " ".join(map(shlex.quote, command))
    return "\n".join(["#!/bin/sh", *lines, f"cd {shlex.quote(folder)} || exit", f"exec {start}", ""])


def own_variables(environment: Mapping[str, str], host_info: HostInfo) -> Dict[str, str]:
    """Return the variables of this host that its ranks need in place of those of the leading host.

    These are the name of its network interface, those of the front for clients of AWS, whose port may differ, and paths
    where the host has no ``/opt/ml`` of its own.
    """
    of_front = (name for name in environment.get(AWS_VARIABLES, "").split(",") if name.startswith(_HOST_PREFIXES))
    names = (_INTERFACE, *of_front)
    own = {name: environment[name] for name in names if name in environment}
    if host_info.base == ML:
        return own
    paths = {name: value for name, value in environment.items() if name.startswith(("SM_", "SAGEMAKER_"))}
    return {**own, **{name: value for name, value in paths.items() if host_info.base in value}}


def _write(folder: str, programs: Mapping[str, str]) -> None:
    for name, text in programs.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o700)


@contextlib.contextmanager
def leader_programs(programs: Mapping[str, str], *, apart: bool) -> Iterator[Programs]:
    """Write the programs into a new folder for the time of the ``with``; ``apart``: other hosts are on other machines.

    Its name has no spaces, because mpirun splits the command at spaces.
    """
    folder = tempfile.mkdtemp(prefix="smx-mpi-", dir=_TOP if apart else None)
    try:
        _write(folder, programs)
        yield Programs(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def worker_programs(remote_shell: str, programs: Mapping[str, str], *, apart: bool) -> Iterator[None]:
    """Write the programs to the same paths on a host that the leading one reaches, unless it shares that folder.

    Most hosts have a ``/tmp`` of their own. mpirun passes the path on to Open MPI, which does not start without it.

    :raises FileExistsError: another user of this machine has made the folder, and may have put other programs there.
    """
    folder = os.path.dirname(remote_shell)
    if not apart and os.path.exists(folder):
        yield
        return
    os.makedirs(folder, mode=0o700)
    try:
        _write(folder, programs)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
