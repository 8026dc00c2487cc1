"""A root folder of a host: all that the machine's ``/`` has at its place, and room for names of a job's own.

SageMaker's processing scripts start in ``/`` of a container, and some write there. Here a folder of the host becomes
the ``/`` of its mount namespace. Each entry of the machine's ``/`` is mounted in it, as writable as it was. What else
a job puts directly below ``/`` lies in the host's folder, and is removed after the job.
"""

from __future__ import annotations

import errno
import os

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.files.host_folder import RootEntries
from jupyter_smx.agent.system.isolation import mounts
from jupyter_smx.agent.system.processes import process

_UNBINDABLE = 1 << 17


def enter(folder: str) -> RootEntries:
    """Make a folder the ``/`` of this process's mount namespace; the process must have one thread and may mount.

    :raises OSError: the system does not allow a step; ``filename`` says which. The namespace is of no use then.
    """
    mounts.bind(folder, folder)
    # The folder lies below / itself: without this, each later mount would hold all earlier ones once more.
    mounts.mount(None, folder, None, _UNBINDABLE)
    links = {}
    with os.scandir("/") as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        target = os.path.join(folder, entry.name)
        if entry.is_symlink():
            links[entry.name] = os.readlink(entry.path)
            _restore_link(target, links[entry.name])
            continue
        if entry.is_dir(follow_symlinks=False):
            os.makedirs(target, exist_ok=True)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mounts.bind(entry.path, target)
    _pivot(folder)
    return RootEntries(frozenset(entry.name for entry in found), links)


def _pivot(folder: str) -> None:
    """Let the folder take the place of ``/``, and take the old one away from this namespace."""
    here = os.fsencode(os.curdir)
    os.chdir(folder)
    try:
        pivot_root = process.libc().pivot_root
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), "pivot_root") from None
    mounts.check_call(pivot_root(here, here), "pivot_root")
    # Both lie at the same place now, the old one above.
    mounts.detach(os.curdir)
    os.chdir("/")
    mounts.mount(None, "/", None, mounts.PRIVATE)  # else programs of jobs could not bind it


def _restore_link(path: str, target: str) -> None:
    """Make a link unless it is there.

    :raises OSError: it cannot be made.
    """
    try:
        if os.readlink(path) == target:
            return
    except OSError:  # it is gone, or no link
        pass
    if os.path.lexists(path):
        rmtree.remove(path)
    os.symlink(target, path)


def restore_links(folder: str, entries: RootEntries) -> None:
    """Put back the links of the machine's ``/`` that a job took away; mounts it cannot take away.

    :raises OSError: one cannot be made.
    """
    for name, target in entries.links.items():
        _restore_link(os.path.join(folder, name), target)
