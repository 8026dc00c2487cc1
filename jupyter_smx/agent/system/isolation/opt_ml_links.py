"""Let the machine's ``/opt/ml`` lead to the folders of one host, where hosts cannot have an ``/opt/ml`` of their own.

It has a link for each folder of the host. A lock in it keeps it for one host at a time, whatever controller has made
that; the system releases the lock when the agent ends, however it ends. A host has it from its start to its end, or
while it runs a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Any, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_folder import SKELETON, is_folder
from jupyter_smx.agent.system.files.rmtree import remove

NAMES = tuple(sorted({name.partition("/")[0] for name in SKELETON}))
PER_HOST, PER_JOB = "host", "job"
"""How long the folder leads to a host: from its start to its end, or while it runs a job."""
_LOCK = ".jupyter-smx-lock"


class OptMlTakenError(Exception):
    """The machine's ``/opt/ml`` leads to another host: jobs that name it would read and write files of that host."""


class OptMlLinks:
    """The claim of one host; ``ml`` is the host's folder, ``top`` is what leads there, ``others`` was there before."""

    def __init__(self, ml: str, top: str, lock: int, others: Set[str]) -> None:
        self._ml = ml
        self._top = top
        self._lock = lock
        self._others = others

    def restore(self) -> None:
        """Make the links, and delete what a job left beside them.

        :raises OSError: something cannot be deleted or made; ``filename`` says what.
        """
        for name in os.listdir(self._top):
            path = os.path.join(self._top, name)
            if name != _LOCK and name not in self._others and not self._is_link(name):
                remove(path)
        self.reset_links()

    def reset_links(self) -> None:
        """Make each link that is missing or was replaced; delete what is in its place, and nothing else.

        :raises OSError: as in :meth:`restore`.
        """
        for name in NAMES:
            if not self._is_link(name):
                path = os.path.join(self._top, name)
                if os.path.lexists(path):
                    remove(path)
                os.symlink(os.path.join(self._ml, name), path)

    def replaced_names(self) -> List[str]:
        """Return the names of links in whose places a job made folders."""
        return [name for name in NAMES if is_folder(os.path.join(self._top, name))]

    def collect(self) -> Dict[str, Any]:
        """Move what is in those folders to the host's, over files of the same name.

        :raises OSError: something cannot be moved; ``filename`` says what.
        """
        for name in self.replaced_names():
            _move(os.path.join(self._top, name), os.path.join(self._ml, name))
        return {}

    def remove(self) -> None:
        """Delete the links, and let another host have the folder."""
        for name in NAMES:
            if self._is_link(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._top, name))
        with contextlib.suppress(OSError):
            os.close(self._lock)

    def _is_link(self, name: str) -> bool:
        return _link_target(os.path.join(self._top, name)) == os.path.join(self._ml, name)


class SharedOptMl:
    """The machine's ``/opt/ml`` as one host has it: always, or ``per_job`` where no job of another host has it."""

    def __init__(self, ml: str, links: Optional[OptMlLinks], *, per_job: bool, top: str = ML) -> None:
        self._ml = ml
        self._top = top
        self._links = links
        self._per_job = per_job
        self.missing_reason = ""
        """Why the job that runs, or ran last, goes without."""
        if per_job:
            self.remove()

    def begin_job(self) -> None:
        """Make the links, or find out why the job goes without.

        :raises OSError: something is in their places that cannot be deleted.
        """
        self.missing_reason = ""
        if self._links is not None:
            self._links.reset_links()  # other programs of the machine may have replaced them
            return
        try:
            self._links, self.missing_reason = claim(self._ml, self._top)
        except OptMlTakenError:
            self.missing_reason = f"a job of another host uses the {ML} of the machine"

    def end_job(self) -> None:
        """Delete what a job left beside the links; delete the links, too, if each job makes them.

        :raises OSError: something cannot be deleted or made; ``filename`` says what.
        """
        if self._links is not None:
            self._links.restore()
        if self._per_job:
            self.remove()

    def replaced_links(self) -> Optional[OptMlLinks]:
        """Return the links if a job made a folder in the place of one."""
        return self._links if self._links is not None and self._links.replaced_names() else None

    def remove(self) -> None:
        """Delete the links, and let another host have the folder."""
        if self._links is not None:
            self._links.remove()
            self._links = None


def is_prepared(top: str = ML) -> bool:
    """Return True if the machine has the folder, and this user may write there."""
    return os.path.isdir(top) and os.access(top, os.W_OK | os.X_OK)


def claim(ml: str, top: str = ML) -> Tuple[Optional[OptMlLinks], str]:
    """Let ``top`` lead to the folder ``ml`` of a host; None and the reason where that is not possible.

    Files that no host has left there stay, and no link is made.

    :raises OptMlTakenError: ``top`` leads to another host.
    """
    try:
        os.makedirs(top, exist_ok=True)
        lock = os.open(os.path.join(top, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        return None, f"the {ML} of the machine cannot be written ({error.strerror})"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = _find_files(top)
        if not found:
            links = OptMlLinks(ml, top, lock, set(os.listdir(top)) - {*NAMES, _LOCK})
            links.restore()
            return links, ""
        reason = f"the {ML} of the machine has files, as {found}"
    except BlockingIOError:
        os.close(lock)
        raise OptMlTakenError(f"another host uses the {ML} of the machine") from None
    except OSError as error:
        reason = f"the {ML} of the machine cannot be used ({error.strerror}: {error.filename})"
    os.close(lock)
    return None, reason


def share(ml: str, *, per_job: bool, top: str = ML) -> Tuple[Optional[SharedOptMl], str]:
    """Let ``top`` lead to the folder ``ml`` of a host, or only to its jobs; None and the reason where it cannot.

    :raises OptMlTakenError: as :func:`claim`, unless each job makes the links.
    """
    try:
        links, why = claim(ml, top)
    except OptMlTakenError:
        if not per_job:
            raise
        return SharedOptMl(ml, None, per_job=True, top=top), ""
    return (None, why) if links is None else (SharedOptMl(ml, links, per_job=per_job, top=top), "")


def _find_files(top: str) -> str:
    """Name something that is neither an empty folder nor a link of a host that has ended; "" if there is nothing."""
    waiting: List[str] = [os.path.join(top, name) for name in sorted(os.listdir(top)) if name != _LOCK]
    while waiting:
        path = waiting.pop(0)
        if is_folder(path):
            waiting += [os.path.join(path, name) for name in sorted(os.listdir(path))]
        elif not _is_of_host(path):
            return path
    return ""


def _move(source: str, target: str) -> None:
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    if is_folder(source) and is_folder(target):
        for name in os.listdir(source):
            _move(os.path.join(source, name), os.path.join(target, name))
        return
    if os.path.lexists(target):
        remove(target)
    shutil.move(source, target)


def _is_of_host(path: str) -> bool:
    target, name = _link_target(path), os.path.basename(path)
    return name in NAMES and target.endswith(os.path.join(os.sep + host_layout.ML, name)) and "/clusters/" in target


def _link_target(path: str) -> str:
    """Return where a link leads; "" if it is none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
