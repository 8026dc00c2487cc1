"""Mount a folder of this machine into a machine of the test world, a file of its own since it runs as a program.

``python namespace_mount.py FOLDER PID TARGET`` mounts FOLDER at TARGET in the mount namespace of PID.
"""

from __future__ import annotations

import ctypes
import os
import sys

_OPEN_TREE, _MOVE_MOUNT = 428, 429
"""Numbers of system calls, which are the same on all architectures; glibc of Debian 12 has no functions for them."""
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_CLONE_NEWNS = 0x20000
_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(folder: str, pid: int, target: str) -> None:
    """Clone the mount of a folder here, and attach it there: a bind mount cannot cross namespaces."""
    tree = _call(_OPEN_TREE, _AT_FDCWD, folder.encode(), _OPEN_TREE_CLONE | _AT_RECURSIVE)
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if _LIBC.setns(namespace, _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "setns")
    _call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)


def _call(number: int, *arguments: int | bytes) -> int:
    code = int(_LIBC.syscall(number, *arguments))
    if code < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return code


if __name__ == "__main__":
    mount(sys.argv[1], int(sys.argv[2]), sys.argv[3])
