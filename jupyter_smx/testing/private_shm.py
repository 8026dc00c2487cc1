"""Shared memory for the tests of one file, apart from that of hosts which other workers of pytest have on this machine.

At the end of a job, a host without namespaces removes new shared memory of the machine that no process has open. It
may be of any owner (documented for users): of two tests side by side, one would report that of the other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files import host_folder
from jupyter_smx.agent.system.isolation import host_cleanup, mounts
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLONE_NEWNS = 0x20000
_CLONE_NEWIPC = 0x08000000


def _unshare() -> None:
    mounts.check_call(process.libc().unshare(_CLONE_NEWNS | _CLONE_NEWIPC), "unshare")
    mounts.mount(None, "/", None, mounts.REC | mounts.PRIVATE)
    mounts.mount("tmpfs", host_cleanup.SHM, "tmpfs", 0, "mode=1777")
    if os.path.ismount(host_folder.QUEUES):
        mounts.mount("mqueue", host_folder.QUEUES, "mqueue", 0)


@pytest.fixture(scope="module")
def own_shared_memory() -> Iterator[None]:
    """Run the block with shared memory of its own for this process and its children; only as root."""
    if os.geteuid() != 0:
        yield
        return
    kinds = ("mnt", "ipc")
    machines = [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    try:
        _unshare()
        yield
    finally:
        for fd in machines:
            mounts.check_call(process.libc().setns(fd, 0), "setns")
            os.close(fd)
