"""The folder of one host on this machine: files of the engine, and the agent's state as its files show it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from jupyter_smx.agent.system.files import host_layout, rmtree, short_path
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.agent.system.resources import cgroup_limits
from jupyter_smx.agent.wire import PROTOCOL
from jupyter_smx.engines import untrusted_files
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.engines.machine.addresses import HostNetwork, addresses, cluster_port
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import HostHandle
from jupyter_smx.model.redaction import redact_text
from jupyter_smx.model.text import format_log_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.model.records.cluster import Handle

MARK = "JUPYTER_SMX_HOST"
"""Environment variable of an agent and of everything that it starts: ``<cluster>/<host>``."""

RELEASED_MARKER = "released"
"""File in a cluster's folder: the cluster was given back, its id is never used again."""

FILES_LOCK = "given.lock"
"""Lock file in a cluster's folder, held while files are copied to its hosts or removed."""

SOCKET_LIMIT = 100
"""Bytes of a path; Linux takes 107 and macOS 103."""

_LINUX = sys.platform == "linux"
_PRIVATE = 0o700
_NO_START_TIME = -1
"""A start time that no process has."""
_COPY_TIMEOUT = 10.0
"""Seconds for which a release waits for a running copy, which checks for that after each piece."""
_MAX_BYTES = 1 << 20
"""Maximum bytes of a short file by an agent or an engine."""
_LOG_TAIL = 4096


class AgentProcess(Struct, frozen=True):
    """Content of ``agent.json``: the process that claimed the host's folder."""

    pid: int
    start_time: int
    boot_id: str

    def is_alive(self) -> bool:
        """Return True if the agent lives; after a reboot none does."""
        return self.boot_id == process_table.boot_id() and process_table.is_alive((self.pid, self.start_time))

    def is_stopped(self) -> bool:
        """Return True if a signal or a debugger has stopped the agent."""
        identity = (self.pid, self.start_time)
        return self.boot_id == process_table.boot_id() and process_table.is_stopped(identity)


def agent_process(host: HostHandle) -> AgentProcess:
    """Read the agent's process from a handle."""
    return msgspec.convert(host.data, AgentProcess)


def handle_data(birth: AgentProcess) -> dict[str, str | int | float]:
    """Return the agent's process for a handle."""
    return {"pid": birth.pid, "start_time": birth.start_time, "boot_id": birth.boot_id}


def agent_processes(handle: Handle, folders: Iterable[HostFolder]) -> list[AgentProcess]:
    """Collect the processes of the agents; unreadable records are left out, because the mark finds those agents too."""
    births: list[AgentProcess | None] = []
    for host in handle.hosts:
        with suppress(msgspec.MsgspecError):
            births.append(agent_process(host))
    for folder in folders:
        with suppress(OSError, msgspec.MsgspecError):
            births.append(folder.read_agent())
    return [birth for birth in births if birth is not None]


def complete_process(birth: AgentProcess, written: float) -> AgentProcess:
    """Complete what an agent could not find out about itself, as outside Linux, from the time of ``agent.json``.

    A process that began after that time, in seconds of the epoch, is another one with the agent's PID.
    """
    found = process_table.read_process(birth.pid)
    is_agent = found is not None and process_table.start_time(found) <= written
    started = found.started if found is not None and is_agent else _NO_START_TIME
    return AgentProcess(pid=birth.pid, start_time=started, boot_id=process_table.boot_id())


class HostFolder(Struct, frozen=True):
    """The folder of one host, ``<data_dir>/clusters/<cluster>/<host>``."""

    path: Path

    @property
    def socket(self) -> Path:
        """Return the unix socket on which the agent listens."""
        return self.path / host_layout.SOCKET

    def can_have_socket(self) -> bool:
        """Return True if this system can bind the socket: Linux with any path, others up to a length."""
        return hasattr(socket, "AF_UNIX") and (_LINUX or self._is_short())

    def _is_short(self) -> bool:
        return len(os.fsencode(self.socket)) <= SOCKET_LIMIT

    @contextmanager
    def socket_address(self) -> Iterator[str]:
        """Yield a path of the socket that is short enough for a socket address, valid inside the ``with``.

        :raises OSError: there is no such path.
        """
        if not _LINUX:
            yield os.fspath(self.socket)
            return
        # A job may have put a link in its place: connecting to a link itself is refused.
        descriptor = os.open(self.socket, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the agent's unix socket.

        :raises UnavailableError: nothing listens there now.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            with self.socket_address() as path:
                connection.connect(path)  # a unix socket answers at once: yes, no, or its queue is full
            return await asyncio.open_unix_connection(sock=connection)
        except (OSError, ValueError) as problem:
            connection.close()
            raise UnavailableError(
                f"Host {self.path.name} of cluster {self.path.parent.name} does not answer "
                f"({_format_os_error(problem)}).",
                transient=True,
            ) from problem

    @property
    def log(self) -> Path:
        """Return the file with the agent's own output."""
        return self.path / host_layout.AGENT_LOG

    @property
    def mark(self) -> str:
        """Return the ``NAME=value`` line in the environment of every process of this host."""
        return f"{MARK}={self.path.parent.name}/{self.path.name}"

    def make(self) -> bool:
        """Create the folder; return True if it has a description already, from an earlier acquire. Blocks."""
        self.path.parent.mkdir(mode=_PRIVATE, exist_ok=True)
        self.path.mkdir(mode=_PRIVATE, exist_ok=True)
        return self._description_path.exists()  # jobs can remove the other file; then all of it would be created again

    def describe(self, description: dict[str, object], own: Callable[[Path], None] = lambda _path: None) -> None:
        """Write ``host.json``, and then a copy in our own folder that jobs cannot reach, each as a whole. Blocks.

        ``own`` changes the file's owner before it gets its name.
        """
        text = json.dumps(description, indent=1)
        _write_atomic(self.path / host_layout.DESCRIPTION, text, own)
        _write_atomic(self._description_path, text, lambda _path: None)

    @property
    def _description_path(self) -> Path:
        return _host_description_path(self.path.parent, self.path.name)

    def is_claimed(self) -> bool:
        """Return True if an agent, or a release, has claimed the folder for good."""
        return (self.path / host_layout.CLAIM).exists()

    def claim(self) -> None:
        """Take the folder so that no agent can start here from now on; quiet when it is taken."""
        with suppress(FileExistsError):
            try:
                self._create_claim()
            except PermissionError:
                self.path.chmod(_PRIVATE)  # a job may have taken the right away
                self._create_claim()

    def _create_claim(self) -> None:
        os.close(os.open(self.path / host_layout.CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def read_agent(self) -> AgentProcess | None:
        """Read the agent's process; None if no agent has started.

        :raises OSError: the folder cannot be read, so the agent's state is unknown.
        """
        try:
            text = untrusted_files.read(self.path, host_layout.PROCESS, _MAX_BYTES)
            birth = msgspec.json.decode(text, type=AgentProcess)
            known = birth.start_time and birth.boot_id
            return birth if known else complete_process(birth, (self.path / host_layout.PROCESS).lstat().st_mtime)
        except FileNotFoundError:
            return None

    def handle(self) -> HostHandle | None:
        """Return the handle of this host, None while it has no agent."""
        birth = self.read_agent()
        if birth is None:
            return None
        return HostHandle(host=self.path.name, data=msgspec.structs.asdict(birth))

    def log_tail(self) -> str:
        """Return the last lines of ``agent.log``, to which jobs can write, for a message why the agent ended."""
        try:
            with untrusted_files.open_file(self.path, self.log.name) as log:
                log.file.seek(max(0, log.size() - _LOG_TAIL))
                text = log.file.read(_LOG_TAIL).decode(errors="replace")
        except OSError:
            return ""
        return redact_text(format_log_end(text))

    def control_groups(self) -> list[str]:
        """Return the folders of the control groups of its jobs, from its description."""
        try:
            groups = json.loads(self._description_path.read_bytes())["limits"]["groups"]
            return [str(folder) for folder in groups.values()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []  # it was never described, or by a version that made none

    def sweep(self) -> str:
        """Remove all that only a living host needs; return what could not be removed. Blocks until it is deleted."""
        return "; ".join(filter(None, (self.remove_files(), self.remove_names())))

    def remove_names(self) -> str:
        """Remove what takes no time: the socket, the short link and the control groups of an ended host. Blocks.

        A sentence names what cannot be removed.
        """
        left = [_try_to_remove(self.socket)]
        try:
            short_path.remove_link(os.fspath(self.path))
        except OSError as problem:
            left.append(str(problem))
        files = self._left_behind(left)
        return "; ".join(filter(None, (files, cgroup_limits.remove_groups(self.control_groups()))))

    def remove_files(self) -> str:
        """Remove what only a living host needs; the spool, ``agent.log`` and ``host.json`` stay. Blocks.

        What cannot be removed costs room on a disk and nothing else: a sentence names it.
        """
        with self._wait_copies_stopped():
            return self._left_behind([_try_to_remove(self.path / name) for name in host_layout.FOLDERS])

    def _left_behind(self, problems: Iterable[str]) -> str:
        named = ", ".join(filter(None, problems))
        return f"files of {self.path} could not be removed: {named}" if named else ""

    @contextmanager
    def _wait_copies_stopped(self) -> Iterator[None]:
        """Wait until a copy to this cluster has stopped after a release; limited, because a dead disk may block it."""
        lock, end = self.path.parent / FILES_LOCK, time.monotonic() + _COPY_TIMEOUT
        with ExitStack() as stack:
            with suppress(OSError):
                if lock.exists():
                    stack.enter_context(file_lock.acquire(lock, lambda: time.monotonic() > end))
            yield


def _format_os_error(problem: Exception) -> str:
    """Return the system's message without a path: jobs show it in lists."""
    return problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)


def _write_atomic(target: Path, text: str, own: Callable[[Path], None]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    temporary.write_text(text, encoding="utf-8")
    own(temporary)
    temporary.replace(target)


def _try_to_remove(path: Path) -> str:
    try:
        rmtree.remove(os.fspath(path))
    except FileNotFoundError:
        return ""
    except OSError as problem:
        return str(problem)
    return ""


def host_names(cluster: Path) -> list[str]:
    """List the hosts that a cluster's folder describes, in the job's order.

    Files that a job could have written are not used: a release must finish whatever jobs did.

    :raises OSError: the folder cannot be read.
    """
    found = sorted(entry.name for entry in os.scandir(cluster) if entry.is_dir(follow_symlinks=False))
    for name in found:
        try:
            order = [str(host) for host in json.loads(_host_description_path(cluster, name).read_bytes())["hosts"]]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            continue  # without an order the names alone do
        return [host for host in order if host in found] + [host for host in found if host not in order]
    return found


def _host_description_path(cluster: Path, host: str) -> Path:
    """Name the copy of a host's ``host.json`` that its jobs do not see."""
    return cluster / f"{host}.json"


def description(
    request: ClusterRequest,
    plan: HostSpec,
    *,
    start_method: str,
    isolate: bool,
    grace: float,
    limits: dict[str, object],
    network: HostNetwork | None = None,
    transfer_python: str = sys.executable,
) -> dict[str, object]:
    """Return the content of ``host.json``: the host of an agent, and all hosts of the cluster; pure.

    ``network`` is set for hosts on other machines; else all share this one. ``transfer_python`` has fsspec and can be
    started by the host; by default it is the controller's. With "" the agent uses its own.
    """
    names = [host.host for host in request.hosts]
    network = network or HostNetwork(addresses(request.cluster, names), "", cluster_port(request.cluster))
    return {
        "protocol": PROTOCOL,
        "cluster": request.cluster,
        "host": plan.host,
        "hosts": names,
        "addresses": network.addresses,
        "interface": network.interface,
        "port": network.port,
        "groups": [
            {
                "instance_group_name": group.name,
                "instance_type": group.instance_type,
                "hosts": [host.host for host in request.hosts if host.group == group.name],
            }
            for group in request.instance_groups
        ],
        "group": plan.group,
        "instance_type": plan.instance_type,
        "idle_limit": request.idle_limit,
        "keep_uncollected": request.keep_uncollected,
        "preload": list(request.preload),
        "preload_memory": request.preload_memory,
        "input_hash_limit": request.input_hash_limit,
        "log_limit": request.log_limit,
        "courier": transfer_python,
        "threads": plan.vcpus,
        "gpus": plan.gpus,
        "start_method": start_method,
        "isolate": isolate,
        "grace": grace,
        "limits": limits,
    }
