"""Namespaces of a host on a shared machine: own ``/opt/ml``, ``/``, ``/etc/hosts``, ``/tmp`` and shared memory."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional, Tuple

from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_folder import CONFIGS, NO_ENTRIES, QUEUES, RootEntries
from jupyter_smx.agent.system.isolation import mounts, root_folder
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.system.files.host_folder import HostFolder

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER = 0x20000, 0x4000000, 0x8000000, 0x10000000
_PATIENCE = 10.0
_OPT = os.path.dirname(ML)
_TMP = "/tmp"  # noqa: S108 - the folder that is replaced, not one that is used
_NSCD = "/run/nscd"
_OPEN = 0o755
_UNSHARE = "unshare"


class NamespacePlan(NamedTuple):
    """The view from inside a host: names with their addresses; ``own_tmp`` replaces ``/tmp``, ``own_root`` ``/``.

    ``reason`` says why ``/`` is not replaced.
    """

    folder: HostFolder
    host: str
    addresses: Dict[str, str]
    own_tmp: bool
    own_root: bool = False
    reason: str = ""


class OutsideFolders(NamedTuple):
    """Open folders that have other paths inside: the one for inputs, and the machine's ``/tmp`` if hidden.

    ``root`` is what was in ``/`` before the host got its own.
    """

    inputs: int
    tmp: Optional[int]
    root: RootEntries


def _under(path: str, parent: str) -> bool:
    real = os.path.realpath(path)
    return real == parent or real.startswith(parent + os.sep)


def needed_paths(root: str, entry: str, environment: Dict[str, str], search: Iterable[str]) -> List[str]:
    """Name the folders that the agent and its jobs read: they must not be hidden."""
    found = [root, entry, sys.prefix, sys.base_prefix, sys.executable, *search]
    found += environment.get("PYTHONPATH", "").split(os.pathsep)
    found += [environment.get(name, "") for name in ("HOME", "VIRTUAL_ENV", "CONDA_PREFIX")]
    return [path for path in found if path]


def make_plan(
    folder: HostFolder, host: str, addresses: Dict[str, str], needed: List[str]
) -> Tuple[Optional[NamespacePlan], str]:
    """Decide what can be replaced; None and a reason when even ``/opt/ml`` cannot."""
    if not process.LINUX:
        return None, "only Linux has mount namespaces"
    if not os.path.isdir(_OPT):
        return None, f"this machine has no folder {_OPT} for {ML}"
    lost = [path for path in needed if _under(path, ML)]
    if lost:
        return None, f"{lost[0]} is in {ML}, which would be hidden"
    own_tmp = not any(_under(path, _TMP) for path in needed)
    return NamespacePlan(folder, host, addresses, own_tmp, own_root=True), ""


def write_files(plan: NamespacePlan) -> None:
    """Write what will be bound over files of the machine: here the names of all hosts are found."""
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        text = "127.0.0.1 localhost\n"
    if text and not text.endswith("\n"):
        text += "\n"
    with open(plan.folder.path("hosts"), "w", encoding="utf-8") as file:
        file.write(text + "".join(f"{address} {name}\n" for name, address in sorted(plan.addresses.items())))
    os.chmod(plan.folder.path("hosts"), 0o644)
    for name in ("opt", "empty", host_layout.QUEUES, host_layout.ROOTFS):
        os.makedirs(plan.folder.path(name), exist_ok=True)
    os.chmod(plan.folder.rootfs, _OPEN)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _unshare() -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = _NEWNS | _NEWUTS | _NEWIPC
    mounts.check_call(process.libc().unshare(flags if uid == 0 else flags | _NEWUSER), _UNSHARE)
    if uid != 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _rebuild_opt(stage: str, ml: str) -> None:
    """Make an ``/opt`` with everything that the machine's has, and ``ml``."""
    mounts.mount("tmpfs", stage, "tmpfs", 0, "size=1m,mode=755")
    for name in sorted(os.listdir(_OPT)):
        source, target = os.path.join(_OPT, name), os.path.join(stage, name)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
            continue
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mounts.bind(source, target)
    inside = os.path.join(stage, os.path.basename(ML))
    os.mkdir(inside)
    mounts.bind(ml, inside)
    mounts.bind(stage, _OPT)
    # What a job puts beside /opt/ml would otherwise be seen by the next one.
    mounts.mount(None, _OPT, None, mounts.REMOUNT | mounts.BIND | mounts.RDONLY)


def _show_queues(folder: HostFolder) -> None:
    """Show the message queues of this namespace as files, so that queues which a job left can be found."""
    with contextlib.suppress(OSError):  # a kernel without them has none to leave
        mounts.mount("mqueue", folder.queues, "mqueue", 0)
        if os.path.isdir(QUEUES):
            mounts.bind(folder.queues, QUEUES)


def _open_outside_folders(plan: NamespacePlan, root: RootEntries) -> OutsideFolders:
    """Open what has other names from now on; a folder that is open stays in reach, as the mount that it is now."""
    inputs = os.open(plan.folder.inputs, os.O_RDONLY | os.O_DIRECTORY)
    return OutsideFolders(inputs, os.open(_TMP, os.O_RDONLY | os.O_DIRECTORY) if plan.own_tmp else None, root)


def enter(plan: NamespacePlan) -> OutsideFolders:
    """Enter the namespaces for good. The process must have one thread only, and keeps the right to mount.

    :raises OSError: the machine does not allow a step; its ``filename`` names the step.
    """
    folder = plan.folder
    _unshare()
    mounts.mount(None, "/", None, mounts.REC | mounts.PRIVATE)
    root = root_folder.enter(folder.rootfs) if plan.own_root else NO_ENTRIES
    outside = _open_outside_folders(plan, root)
    for name in CONFIGS:
        mounts.mount("tmpfs", os.path.join(folder.ml, name), "tmpfs", 0, "size=16m,mode=755")
    if os.path.isdir(ML):
        mounts.bind(folder.ml, ML)
    else:
        _rebuild_opt(folder.path("opt"), folder.ml)
    if os.path.isdir("/dev/shm"):  # noqa: S108 - shared memory
        mounts.mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")  # noqa: S108
    _show_queues(folder)
    mounts.bind(folder.path("hosts"), "/etc/hosts")
    if os.path.isdir(_NSCD):
        # The daemon would answer from the machine's own hosts file.
        mounts.bind(folder.path("empty"), _NSCD)
    own_name = plan.host.encode()
    mounts.check_call(process.libc().sethostname(own_name, len(own_name)), "sethostname")
    # What later jobs get is in there, and a job may write wherever its user may.
    mounts.bind_read_only(folder.inputs, folder.inputs)
    if plan.own_tmp:
        mounts.bind(folder.tmp, _TMP)
    mounts.keep_mount_capability()
    return outside


def _check_namespace(plan: NamespacePlan, needed: List[str]) -> str:
    """Use the host as a job would; return a description of the first fault, or ""."""
    for name, wanted in plan.addresses.items():
        try:
            address = socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]
        except OSError as error:
            return f"{name} cannot be resolved ({error})"
        if address != wanted:
            return f"{name} is resolved to {address}, not to {wanted}"
    mark = os.path.join(ML, ".probe")
    _write(mark, "x")
    seen = os.path.exists(os.path.join(plan.folder.ml, ".probe"))
    os.unlink(mark)
    if not seen:
        return f"{ML} is not this host's folder"
    lost = [path for path in needed if not os.path.exists(path) and not path.endswith(".zip")]
    return f"{lost[0]} cannot be seen" if lost else ""


def choose_root(plan: NamespacePlan, needed: List[str]) -> Tuple[Optional[NamespacePlan], str]:
    """Try a plan, and without a ``/`` of its own where that is refused; None and a reason if neither can be had."""
    reason = probe(plan, needed)
    if not reason:
        return plan, ""
    if reason.startswith(_UNSHARE):
        return None, reason
    lesser = plan._replace(own_root=False, reason=f"jobs share the machine's /: {reason}")
    other = probe(lesser, needed)
    return (None, other) if other else (lesser, "")


def _trial(plan: NamespacePlan, needed: List[str], pipe: int) -> None:
    answer = "it exited"
    try:
        existing = [path for path in needed if os.path.exists(path)]
        enter(plan)
        answer = _check_namespace(plan, existing)
    except OSError as error:
        answer = f"{error.filename or 'a step'}: {error.strerror}"
    finally:
        os.write(pipe, json.dumps(answer).encode())
        os._exit(0)


def probe(plan: NamespacePlan, needed: List[str]) -> str:
    """Try it in a forked child; return why the namespaces cannot be used, '' if they can."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _trial(plan, needed, theirs)
    os.close(theirs)
    ready = select.select([ours], [], [], _PATIENCE)[0]
    text = os.read(ours, 65_536) if ready else b""
    os.close(ours)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return str(json.loads(text.decode())) if text else f"the probe did not answer in {_PATIENCE:.0f} s"
