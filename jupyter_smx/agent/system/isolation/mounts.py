"""Mounts in the namespace of one host: read-only views of folders, and new overlays on cached folders."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import struct
from typing import Any, Dict, Iterator, List, Optional, Tuple

from jupyter_smx.agent.system.processes import process

RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 0x1000, 0x4000, 1 << 18
_DETACH = 2
_MOUNT_SETATTR = 442
"""Number of the system call, the same on every kind of processor; the C library has no function for it yet."""
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY = 1
_MOUNT_POINT_INDEX = 4
"""Index of the mount point in a line of ``mountinfo``."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
_PR_CAPBSET_DROP = 24
_CAP_SYS_ADMIN = 21
_MOUNTING, _OVERRIDING = 1 << _CAP_SYS_ADMIN, 1 << 1
_CAPABILITY_VERSION = 0x20080522
# Flags of statvfs with their flags of mount(2): an unprivileged process must repeat the flags that are set.
_PRESERVED_FLAGS = ((2, 2), (4, 4), (8, 8), (1024, 1024), (2048, 2048), (4096, 1 << 21))


def check_call(result: int, what: str) -> None:
    """Check the result of a call of the C library.

    :raises OSError: the call failed; ``filename`` is ``what``.
    """
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source: Optional[str], target: str, kind: Optional[str], flags: int, data: Optional[str] = None) -> None:
    """Call ``mount``.

    :raises OSError: the system refuses it; ``filename`` has the details.
    """
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    check_call(process.libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def bind(source: str, target: str) -> None:
    """Show ``source`` at ``target`` as well.

    :raises OSError: the system refuses.
    """
    # Without MS_REC a user may not bind a tree that has mounts inside.
    mount(source, target, None, BIND | REC)


def bind_read_only(source: str, target: str) -> None:
    """Mount a file or a folder read-only at ``target``, independent of its size.

    :raises OSError: the system refuses.
    """
    bind(source, target)
    try:
        _close(target)
    except OSError:
        detach(target)
        raise


def _close(target: str) -> None:
    attributes = struct.pack("QQQQ", _ATTR_RDONLY, 0, 0, 0)
    words = (ctypes.c_int(_AT_FDCWD), os.fsencode(target), ctypes.c_uint(_AT_RECURSIVE), attributes)
    try:
        check_call(
            process.libc().syscall(ctypes.c_long(_MOUNT_SETATTR), *words, ctypes.c_size_t(len(attributes))),
            f"close {target}",
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # Before Linux 5.12 only the uppermost mount can be closed in one step, and mostly there is no other.
        has = os.statvfs(target).f_flag
        kept = sum(flag for bit, flag in _PRESERVED_FLAGS if has & bit)
        mount(None, target, None, REMOUNT | BIND | RDONLY | kept)


def mount_overlay(store: str, lower: str, upper: str, work: str, target: str) -> None:
    """Show the folder ``lower`` at ``target`` so that it can be written to, and what is written lands in ``upper``.

    The three folders are named from ``store`` on: the system divides their names at colons and commas, which the
    path of a host may have; ``target`` is absolute.

    :raises OSError: the system, or the file system of ``upper``, does not do that.
    """
    words = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if os.getuid() != 0:
        words += ",userxattr"
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(store)
        with _overriding():
            mount("overlay", target, "overlay", 0, words)
    finally:
        os.fchdir(here)
        os.close(here)


def mounts_in(folder: str, told: str) -> Tuple[str, ...]:
    """Return the entries of a folder that are or contain a mount, by the text of ``/proc/self/mountinfo``."""
    places = (row.split(" ")[_MOUNT_POINT_INDEX] for row in told.splitlines() if row.count(" ") > _MOUNT_POINT_INDEX)
    plain = (_ESCAPED.sub(lambda found: chr(int(found[1], 8)), place) for place in places)
    top = folder.rstrip("/") + "/"
    return tuple(sorted({place[len(top) :].split("/")[0] for place in plain if place.startswith(top)}))


def detach(target: str) -> None:
    """Unmount at once, also while processes use it.

    :raises OSError: nothing is mounted there.
    """
    check_call(process.libc().umount2(os.fsencode(target), _DETACH), f"unmount {target}")


def _set_capabilities(effective: int, permitted: int) -> None:
    """Set the capabilities of this process; dropping some is always allowed."""
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    low, high = (0xFFFFFFFF & number for number in (permitted, permitted >> 32))
    low_now, high_now = (0xFFFFFFFF & number for number in (effective, effective >> 32))
    data = struct.pack("IIIIII", low_now, low, 0, high_now, high, 0)
    check_call(process.libc().capset(header, data), "capset")


def _read_capabilities() -> int:
    rows = process.read_file("/proc/self/status").splitlines()
    return int(next((row.split()[1] for row in rows if row.startswith("CapPrm:")), "0"), 16)


def keep_mount_capability() -> None:
    """Keep only the right to mount, of all rights of a user in its own namespace.

    With the others, this process could read and delete files that a job has closed to its own user. The right to
    override permissions stays inactive: a layer's own folders are closed to all, and the mounting process must open
    them.
    """
    if os.getuid() != 0:
        _set_capabilities(_MOUNTING, _MOUNTING | _OVERRIDING)


@contextlib.contextmanager
def _overriding() -> Iterator[None]:
    if os.getuid() == 0:
        yield
        return
    _set_capabilities(_MOUNTING | _OVERRIDING, _MOUNTING | _OVERRIDING)
    try:
        yield
    finally:
        keep_mount_capability()


def drop_mount_capability() -> None:
    """Drop the right to change mounts, for this process and all programs that it starts."""
    held = _read_capabilities() & ~(1 << _CAP_SYS_ADMIN)
    if os.getuid() == 0:
        process.prctl(_PR_CAPBSET_DROP, _CAP_SYS_ADMIN)
    _set_capabilities(held, held)


class Mounts:
    """Mounts of the current job, to be removed at its end."""

    def __init__(self) -> None:
        self._targets: List[str] = []
        self._layers: Optional[bool] = None

    def can_overlay(self, store: str) -> bool:
        """Return True if this system and the file system of the store support overlays; tested once."""
        if self._layers is None:
            top = os.path.join(store, "layers", "trial")
            try:
                for name in ("lower", "upper", "work", "target"):
                    os.makedirs(os.path.join(top, name), exist_ok=True)
                lower, upper, work = (os.path.join("layers", "trial", name) for name in ("lower", "upper", "work"))
                mount_overlay(store, lower, upper, work, os.path.join(top, "target"))
                detach(os.path.join(top, "target"))
            except OSError:
                self._layers = False
            else:
                self._layers = True
        return self._layers

    def mount_all(self, requests: List[Dict[str, Any]], store: str) -> None:
        """Carry out the mounts of a staging: ``show`` (``source``), ``layer`` (``lower``, ``upper``, ``work``).

        :raises OSError: one of them cannot be mounted.
        """
        for request in requests:
            # The target exists, unless it is inside another folder that was mounted just now.
            os.makedirs(request["target"], exist_ok=True)
            if request["how"] == "show":
                bind_read_only(request["source"], request["target"])
            else:
                mount_overlay(store, request["lower"], request["upper"], request["work"], request["target"])
            self._targets.append(request["target"])

    def add(self, target: str) -> None:
        """Record a mount that another component created for the job."""
        self._targets.append(target)

    def unmount_all(self) -> None:
        """Take everything away, the last one first."""
        while self._targets:
            # What a job did away with is away.
            with contextlib.suppress(OSError):
                detach(self._targets.pop())
