"""End the hosts of a cluster on this machine with everything that they started, and remove what only they needed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NoReturn, Set

from jupyter_smx.agent.remote.verb_error import VerbError
from jupyter_smx.agent.system.files import host_layout, rmtree, short_path
from jupyter_smx.agent.system.isolation import host_traces
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.agent.system.resources import cgroup_limits

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore


PATIENCE = 3.0
"""Seconds that a release waits for the deletion of files."""
_PIECE = 65_536


def release(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Release the cluster in ``request`` within its ``timeout`` in seconds; return what could not be removed.

    ``hosts`` has the results of their launches, by which they are found if their folders are gone. Logs, records and
    artifacts of jobs stay. A cluster without anything on this machine is released all the same.

    :raises VerbError: a process still runs although it was killed.
    """
    cluster = request["cluster"]
    hosts = store.close(cluster)
    launches = request.get("hosts", [])
    agents = [(agent.pid, agent.start_time, agent.boot_id) for agent in map(store.agent, hosts) if agent is not None]
    agents += [(int(host["pid"]), int(host["start_time"]), str(host["boot_id"])) for host in launches if "pid" in host]
    roots = [(pid, started) for pid, started, boot_id in agents if boot_id == process_table.boot_id()]
    names = {name.host for name in hosts} | {host["host"] for host in launches}
    marks = ["JUPYTER_SMX_HOST={}/{}".format(cluster, name) for name in sorted(names)]

    def select(known: process_table.Table) -> Set[int]:
        return process_table.process_tree(roots, known) | process_table.find_marked(marks, known)

    traces = host_traces.read_traces([store.folder(name).root for name in hosts], marks=marks)
    groups = _groups(store, cluster, sorted(names))
    checked: Dict[process_table.Identity, bool] = {}

    def select_unmarked(known: process_table.Table) -> Set[int]:
        members = cgroup_limits.find_members(groups) & known.keys()
        return members | host_traces.find_unmarked(traces, known, checked)

    # Marked processes first: the others were started by them with a cleaned environment.
    left = process_table.kill_in_turn([select, select_unmarked], float(request["timeout"]))
    if left:
        raise VerbError(
            f"Cluster {cluster}: processes {sorted(left)} still run on {request['machine']} although they were killed.",
            kind="unavailable",
            rule="A process waits for a device or a network disk.",
            transient=True,
        )
    folders = [store.folder(name).root for name in hosts]
    links = [_try(short_path.remove_link, folder) for folder in folders]
    problems = links + [_try(rmtree.remove, os.path.join(folder, host_layout.SOCKET)) for folder in folders]
    problems += [cgroup_limits.remove_groups(groups), *_sweep(folders)]
    return {"left": [problem for problem in problems if problem]}


def _sweep(folders: List[str]) -> List[str]:
    """Delete the folders of hosts in a process of its own; return what could not be deleted.

    Folders of many files may take longer than ``PATIENCE`` seconds; then the process continues without this one.
    """
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return _delete(folders)
    if child == 0:
        _delete_and_exit(folders, writer)
    os.close(writer)
    try:
        text = _read_until_end(reader, time.monotonic() + PATIENCE)
    finally:
        os.close(reader)
    if not text:
        return []  # it continues
    os.waitpid(child, 0)
    problems: List[str] = json.loads(text)
    return problems


def _delete(folders: List[str]) -> List[str]:
    return [_try(rmtree.remove, os.path.join(folder, name)) for folder in folders for name in host_layout.FOLDERS]


def _delete_and_exit(folders: List[str], writer: int) -> NoReturn:
    """Delete the folders, write what could not be deleted, and exit. Holds nothing open that a caller waits for."""
    try:
        os.setsid()
        _release_streams()
        text = json.dumps(_delete(folders)).encode()
        while text:
            text = text[os.write(writer, text) :]
    finally:
        os._exit(0)


def _release_streams() -> None:
    """Replace the standard streams, whose end the other side of the connection awaits."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        return
    os.closerange(0, 3)


def _read_until_end(reader: int, end: float) -> bytes:
    """Read what is written until the other side closes; "" if that is later than ``end``, by the monotonic clock."""
    text = b""
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        piece = os.read(reader, _PIECE)
        if not piece:
            return text
        text += piece
    return b""


def _groups(store: ClusterStore, cluster: str, hosts: Iterable[str]) -> List[str]:
    """List the folders of the control groups of hosts."""
    names = [cgroup_limits.group_name(store.root, cluster, host) for host in hosts]
    parents = cgroup_limits.find_parents().folders.values()
    return [str(parent / name) for parent in parents for name in names]


def _try(remove: Callable[[str], None], path: str) -> str:
    """Remove a path; return the reason if it still exists, else ""."""
    try:
        remove(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""
