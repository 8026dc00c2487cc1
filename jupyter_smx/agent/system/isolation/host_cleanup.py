"""Find, remove and report what a job left on its host before the next job starts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from typing import Any, Collection, Dict, List, Set, Tuple

from jupyter_smx.agent.system.files.host_folder import (
    JOB_FOLDERS,
    QUEUES,
    SKELETON,
    TMP_MODE,
    HostFolder,
    is_folder,
    skeleton_entries,
)
from jupyter_smx.agent.system.files.rmtree import remove, remove_if_possible
from jupyter_smx.agent.system.isolation import root_folder
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

SHM = "/dev/shm"  # noqa: S108 - POSIX shared memory lives there, it is no place for temporary files
_IPC_RMID = 0
_SYSV = (("shm", "shmctl", 2), ("msg", "msgctl", 2), ("sem", "semctl", 3))
_SYSV_NUMBER = {"shm": "shmid", "msg": "msqid", "sem": "semid"}
_NAMED = 5
_NAMED_PROCESSES = 10
_PERMANENT_FOLDERS = sorted({*JOB_FOLDERS, *SKELETON})
"""Folders of ``/opt/ml`` that stay from job to job, outer ones first."""
_RESET_FOLDERS = [(name, skeleton_entries(name)) for name in JOB_FOLDERS]
_OPEN = 0o755


class HostBaseline(NamedTuple):
    """State before the job: shared memory files, POSIX message queues, System V objects as ``kind/id``."""

    shm: Set[str]
    queues: Set[str]
    sysv: Set[str]


def _own_files(folder: str) -> Set[str]:
    found = set()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # others may remove theirs at any time
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    found.add(entry.name)
    return found


def _sysv_rows(kind: str) -> List[Dict[str, str]]:
    lines = process.read_file(f"/proc/sysvipc/{kind}").splitlines()
    names = lines[0].split() if lines else []
    return [dict(zip(names, line.split())) for line in lines[1:]]


def _sysv_objects(*, private: bool) -> Set[str]:
    found = set()
    for kind, _call, _arguments in _SYSV:
        if kind != "shm" and not private:
            continue  # if other programs share the tables, the owner is unknown
        for row in _sysv_rows(kind):
            idle = row.get("nattch", "0") == "0" and not process.is_alive(int(row.get("cpid", "0")))
            if row.get("uid") == str(os.getuid()) and (private or idle):
                found.add(f"{kind}/{row[_SYSV_NUMBER[kind]]}")
    return found


def _queue_files(folder: HostFolder, *, private: bool) -> str:
    return folder.queues if private else QUEUES


def take_baseline(folder: HostFolder, *, private: bool) -> HostBaseline:
    """Record the state of the host; ``private``: its shared memory belongs to it alone."""
    queues = _own_files(_queue_files(folder, private=private))
    return HostBaseline(_own_files(SHM), queues, _sysv_objects(private=private))


def _maps_key(path: str) -> Tuple[str, str]:
    """Return device and inode of a file in the format of ``/proc/PID/maps``.

    :raises OSError: it no longer exists.
    """
    state = os.lstat(path)
    return f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}", str(state.st_ino)


def _in_use(place: str, names: Set[str]) -> Set[str]:
    """Find the shared memory files and queues of living processes; only needed if other hosts share them.

    The creator of a semaphore has it under a temporary name, because glibc prepares each under another one.
    """
    files = {}
    for name in names:
        with contextlib.suppress(OSError):
            files[_maps_key(os.path.join(place, name))] = name
    used = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        for line in process.read_file(f"/proc/{entry}/maps").splitlines():
            if f" {place}/" in line:
                device, number = line.split(None, 5)[3:5]
                used.add(files.get((device, number), ""))
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{entry}/fd"):
                with contextlib.suppress(OSError):
                    used.add(os.path.basename(os.readlink(f"/proc/{entry}/fd/{fd}")))
    return used & names


def _remove_shm(before: HostBaseline, *, private: bool) -> List[str]:
    new = _own_files(SHM) - before.shm
    if new and not private:
        # Other programs share this folder. A subfolder is no shared memory, and may not be the job's.
        new = {name for name in new if os.path.isfile(os.path.join(SHM, name))}
        new -= _in_use(SHM, new)
    for name in new:
        remove_if_possible(os.path.join(SHM, name))
    return [f"{_kind_of(name)} {SHM}/{name} was removed." for name in sorted(new)]


def _kind_of(name: str) -> str:
    return "semaphore" if name.startswith("sem.") else "shared memory"


def _remove_queues(folder: HostFolder, before: HostBaseline, *, private: bool) -> List[str]:
    place = _queue_files(folder, private=private)
    new = _own_files(place) - before.queues
    if new and not private:
        new -= _in_use(place, new)
    for name in new:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(place, name))
    return [f"message queue /{name} was removed." for name in sorted(new)]


def _remove_sysv(before: HostBaseline, *, private: bool) -> List[str]:
    sentences = []
    for item in sorted(_sysv_objects(private=private) - before.sysv):
        kind, _, number = item.partition("/")
        for name, call, arguments in _SYSV:
            if name == kind:
                words = [int(number), 0, _IPC_RMID] if arguments == 3 else [int(number), _IPC_RMID]  # noqa: PLR2004
                getattr(process.libc(), call)(*words, ctypes.c_void_p(None))
                sentences.append(f"System V {kind} {number} was removed.")
    return sentences


def _describe_temporary_files(folder: HostFolder, own: Collection[str] = ()) -> List[str]:
    try:
        names = sorted({*os.listdir(folder.tmp)}.difference(folder.mounted_names, own)) if is_folder(folder.tmp) else []
    except OSError:
        return []
    if not names:
        return []
    shown = ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
    return [f"{len(names)} temporary file(s) or folder(s) were removed: {shown}"]


def remove_leftovers(
    folder: HostFolder, before: HostBaseline, own: Collection[str] = (), *, private: bool
) -> List[str]:
    """Remove what a job left in memory; return descriptions of it. The job's processes must have exited.

    ``own`` are the names of temporary files that the host itself wrote for the job.
    """
    posix = _remove_shm(before, private=private) + _remove_queues(folder, before, private=private)
    return posix + _remove_sysv(before, private=private) + _describe_temporary_files(folder, own)


def describe_processes(pids: List[int]) -> List[str]:
    """Describe the processes that still run, and the ports where they listen; call it before they are killed.

    Of many the first are named and the others counted: meanwhile they run on, and the agent answers no requests.
    """
    named, more = pids[:_NAMED_PROCESSES], len(pids[_NAMED_PROCESSES:])
    ports = process.listening_ports(named)
    sentences = []
    for pid in named:
        where = f", which listened on port {ports[pid]}," if pid in ports else ""
        sentences.append(f"process {pid} ({process.command_line(pid)}){where} was still running and was killed.")
    return sentences + ([f"{more} more process(es) were still running and were killed."] if more else [])


def move_to_trash(source: str, target: str) -> None:
    """Move what a job wrote to the trash; if that fails, delete it at once.

    :raises OSError: it cannot be deleted either, or does not exist.
    """
    with contextlib.suppress(OSError):
        os.rename(source, target)
        return
    if os.path.isdir(source) and not os.path.islink(source):
        # A folder that its owner may not write to has to be opened before it can be moved.
        with contextlib.suppress(OSError):
            os.chmod(source, _OPEN)
            os.rename(source, target)
            return
    # Another file system, as the small one with the config files, or no space for a name.
    remove(source)


def _restore_permissions(folder: HostFolder, trash: str) -> bool:
    """Restore the permissions of the host's folders, and move to names that begin with ``trash`` what replaced one.

    Outer ones come first: through a link in the place of one, everything inside would belong to another user. Returns
    True if no folder is missing.
    """
    is_whole = True
    own = [os.path.normpath(os.path.join(folder.ml, name)) for name in _PERMANENT_FOLDERS]
    for path in [*own, folder.tmp, *_own_root(folder)]:
        try:
            found = os.lstat(path).st_mode
        except OSError:
            is_whole = False
            continue
        if not stat.S_ISDIR(found):
            is_whole = False
            move_to_trash(path, f"{trash}-in-place-of-{os.path.relpath(path, folder.root).replace(os.sep, '-')}")
        elif stat.S_IMODE(found) != (mode := TMP_MODE if path == folder.tmp else _OPEN):
            os.chmod(path, mode)
    return is_whole


def _own_root(folder: HostFolder) -> List[str]:
    """Return the folder that is the ``/`` of the host's jobs, if they have their own."""
    return [folder.rootfs] if folder.root_entries.names else []


def reset_folders(folder: HostFolder, job: str) -> None:
    """Move everything that a job wrote to the trash, by renames; the folders themselves stay.

    :raises OSError: something cannot be moved, so this host is not clean.
    """
    trash = os.path.join(folder.trash, job)
    is_whole = _restore_permissions(folder, trash)
    count = 0
    for place, kept in [
        *((os.path.join(folder.ml, name), kept) for name, kept in _RESET_FOLDERS),
        (folder.tmp, folder.mounted_names),
        *((place, folder.root_entries.names) for place in _own_root(folder)),
    ]:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(place):
                if name not in kept:
                    count += 1
                    move_to_trash(os.path.join(place, name), f"{trash}-{count}")
    for place in filter(is_folder, folder.unmovable):  # a job may have moved away what one lies in
        for name in os.listdir(place):
            remove(os.path.join(place, name))
    root_folder.restore_links(folder.rootfs, folder.root_entries)
    if not is_whole:
        folder.make_job_folders()


def clear_root(folder: HostFolder) -> None:
    """Delete what a job wrote directly below ``/``, as far as that is possible; the machine's entries stay."""
    kept = folder.root_entries.names
    with contextlib.suppress(OSError):
        for name in os.listdir(folder.rootfs) if kept else ():
            if name not in kept:
                remove_if_possible(os.path.join(folder.rootfs, name))


def empty_trash(folder: HostFolder) -> Dict[str, Any]:
    """Delete what earlier jobs wrote."""
    clear_folder(folder.trash)
    return {}


def clear_folder(folder: str) -> None:
    """Delete what a folder holds, as far as that is possible; others may be at it as well."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            remove_if_possible(os.path.join(folder, name))
