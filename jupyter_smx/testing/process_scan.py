"""Scan this machine without an engine or agent: processes by their mark, sockets, folders."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path
from typing import NamedTuple

MARK = "JUPYTER_SMX_HOST"
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_LISTEN_FLAG = "00010000"
_UNIX_FIELDS = 8


class ProcessInfo(NamedTuple):
    """One living process as ``/proc`` shows it."""

    pid: int
    started: str
    environment: frozenset[bytes]
    command: str

    def has_variable(self, line: str) -> bool:
        """Return True if it started with this ``NAME=value`` in its environment."""
        return line.encode() in self.environment

    def host(self) -> str:
        """Return its ``<cluster>/<host>``, empty if it belongs to none."""
        prefix = f"{MARK}=".encode()
        return next((line[len(prefix) :].decode() for line in self.environment if line.startswith(prefix)), "")


def read_process(pid: int) -> ProcessInfo | None:
    """Read one process; None if it is gone, a zombie, or hidden."""
    folder = _PROC / str(pid)
    try:
        stat = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if stat[0] in "ZX":
            return None
        environment = frozenset((folder / "environ").read_bytes().split(b"\0"))
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (OSError, IndexError):
        return None
    return ProcessInfo(pid, stat[19], environment, command)


def processes(words: str = "") -> list[ProcessInfo]:
    """List all living processes that this user may read, or only those with these words in their environment.

    Tests scan very often; of a process without the words nothing else is read.
    """
    pids = (entry.name for entry in os.scandir(_PROC) if entry.name.isdecimal())
    found = (read_process(int(pid)) for pid in pids if not words or words.encode() in _environment(pid))
    return [seen for seen in found if seen is not None]


def _environment(pid: str) -> bytes:
    """Read the environment with which a process started, nothing if it is gone or hidden."""
    try:
        # The system's own files here: pathlib and a buffer take longer than the kernel does.
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def control_groups(cluster: str) -> list[str]:
    """List the control groups that were made for hosts of a cluster, wherever they are."""
    folders = (Path(top, name) for top, names, _ in os.walk(_GROUPS) for name in names)
    return sorted(str(path) for path in folders if path.name.startswith("jupyter-smx-") and f"-{cluster}-" in path.name)


def cluster_processes(cluster: str) -> list[ProcessInfo]:
    """List the living processes that carry the mark of one of the cluster's hosts."""
    return [seen for seen in processes(f"{MARK}={cluster}/") if seen.host().partition("/")[0] == cluster]


def find_agents(cluster: str) -> list[tuple[str, int]]:
    """Find the agents that live now, with their host: marked processes that lead a session and whose command serves."""
    return [
        (seen.host().partition("/")[2], seen.pid)
        for seen in cluster_processes(cluster)
        if "serve" in arguments(seen.pid) and _leads_its_session(seen.pid)
    ]


def agents(cluster: str) -> dict[str, int]:
    """Find the agents that live now, by host."""
    return dict(find_agents(cluster))


def arguments(pid: int) -> list[str]:
    """Return the arguments of a process, none if it is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    except OSError:
        return []


def _leads_its_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Kill a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_and_wait(pid: int) -> None:
    """Kill a process and wait until the kernel has closed all that it had open. Blocks for some milliseconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        kill(pid)
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


def listening_sockets(pid: int) -> set[str]:
    """List the unix sockets with a name that a process listens on."""
    try:
        lines = (_PROC / str(pid) / "net/unix").read_text(errors="replace").splitlines()
        rows = [line.split(maxsplit=_UNIX_FIELDS - 1) for line in lines if f" {_LISTEN_FLAG} " in line]
        named = {f"socket:[{row[6]}]": row[7] for row in rows if len(row) == _UNIX_FIELDS and row[3] == _LISTEN_FLAG}
        targets = {_target(entry.path) for entry in os.scandir(_PROC / str(pid) / "fd")} if named else set()
    except OSError:
        return set()
    return {named[target] for target in targets & named.keys()}


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - pathlib takes longer than the kernel does
    except OSError:
        return ""


def read_json(path: Path) -> dict[str, object] | None:
    """Read a file that holds a JSON object, None when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content if isinstance(content, dict) else None
