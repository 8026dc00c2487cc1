"""Shared memory for the tests of one file, apart from that of hosts which other workers of pytest have on this machine.

At the end of a job a host that has no namespaces removes what is new in the machine's shared memory and nobody has
open, whoever's it is (documented for users): of two tests side by side one would tell of the other's.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEW_MOUNTS = 0x20000
_NEW_IPC = 0x08000000
_RECURSIVE_PRIVATE = 0x4000 | 0x40000
"""``CLONE_NEWNS`` and ``CLONE_NEWIPC`` of ``sched.h``; ``MS_REC`` and ``MS_PRIVATE`` of ``sys/mount.h``."""
_MOUNTS = (("tmpfs", "/dev/shm", b"mode=1777"), ("mqueue", "/dev/mqueue", None))  # noqa: S108 - shared memory


def _call(name: str, *words: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _leave_the_machines() -> None:
    _call("unshare", _NEW_MOUNTS | _NEW_IPC)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_RECURSIVE_PRIVATE), None)
    for kind, place, data in _MOUNTS:
        if os.path.ismount(place) or kind == "tmpfs":
            _call("mount", kind.encode(), place.encode(), kind.encode(), ctypes.c_ulong(0), data)


@pytest.fixture(scope="module")
def own_shared_memory() -> Iterator[None]:
    """Give this process, and what it starts meanwhile, shared memory of its own; to others than root the machine's."""
    if os.geteuid() != 0:
        yield
        return
    kinds = ("mnt", "ipc")
    machines = [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    try:
        _leave_the_machines()
        yield
    finally:
        for fd in machines:
            _call("setns", fd, 0)
            os.close(fd)
