"""Checkpoints: a folder of the job that is restored before the start, and kept elsewhere while the job runs.

As on SageMaker: what is deleted here is deleted there, what others put there later is not fetched, and all hosts of a
job keep theirs in the same place, without their names in it, so that of equal names the last one written stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import stat
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent import errand
from jupyter_smx.agent.failure import RefusalError

if TYPE_CHECKING:
    from jupyter_smx.agent.loop import Loop

NAME = "checkpoints"
PAUSE = 1.0
"""Seconds between two looks at the folder; a look that takes long is followed by a longer pause."""
_REST = 5.0
"""How much longer the pause is than the look."""
SETTLED = 1.0
"""Seconds without a change after which a file counts as written."""
TOO_LONG = 30.0
"""Seconds after which a file that never settles, as a log does not, is kept as it is."""
_TOLD = 3
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_PART = ".smx-part-"
"""How the name begins under which a file is written aside; it lies at the top of the place."""

Stamp = Tuple[int, int, int]
"""What tells two contents of a file apart: size, time of its last change as anybody may set it, and as nobody may."""
Known = Dict[str, List[int]]


class CheckpointError(RefusalError):
    """A place for checkpoints that cannot be used."""


class FolderStore:
    """A folder as the place of checkpoints. Another kind of place has the same four methods.

    ``writer`` names the file that is being written, so that hosts and jobs which share the place do not meet there.
    Of a place that is not ours alone no folder is deleted.
    """

    def __init__(self, root: str, writer: str, *, is_ours: bool = True) -> None:
        self._root = root
        self._is_ours = is_ours
        self._part = os.path.join(root, _PART + writer)

    def names(self) -> List[str]:
        """Name the files that are there, after the place was made where it is not.

        :raises CheckpointError: it cannot be made or read.
        """
        try:
            os.makedirs(self._root, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._part)  # what an attempt of this job was writing here when it was killed
            found, closed = look(self._root)
        except OSError as error:
            raise CheckpointError(f"checkpoint: {self._root} cannot be used ({error.strerror}).") from None
        if closed:
            raise CheckpointError(f"checkpoint: {closed[0]} cannot be read.")
        return sorted(name for name in found if not name.startswith(_PART))

    def fetch(self, name: str, path: str) -> None:
        """Copy a file from there to ``path``."""
        shutil.copy2(os.path.join(self._root, name), path)

    def put(self, path: str, name: str, is_same: Callable[[], bool]) -> bool:
        """Put a file there, whole or not at all; False where it changed meanwhile."""
        target = os.path.join(self._root, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(path, self._part)
        if not is_same():
            os.unlink(self._part)
            return False
        if os.path.isdir(target) and not os.path.islink(target):
            if not self._is_ours:
                os.unlink(self._part)
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            shutil.rmtree(target)  # a folder here became a file
        os.replace(self._part, target)
        return True

    def remove(self, name: str) -> None:
        """Delete a file there, and the folders that it leaves empty."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(self._root, name))
        folder = os.path.dirname(name)
        with contextlib.suppress(OSError):
            while folder:
                os.rmdir(os.path.join(self._root, folder))
                folder = os.path.dirname(folder)


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def look(folder: str, *, follow: bool = True) -> Tuple[Dict[str, Stamp], List[str]]:
    """Find the files in a folder, by their names in it, and the paths of what cannot be looked at.

    A link to a file counts as the file where links are followed, one to a folder is none; nor are sockets, pipes and
    the like.
    """
    found: Dict[str, Stamp] = {}
    closed: List[str] = []

    def miss(error: OSError) -> None:
        if error.errno not in _GONE:
            closed.append(str(error.filename))

    for top, _folders, names in os.walk(folder, onerror=miss):
        for name in names:
            path = os.path.join(top, name)
            try:
                if stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode):
                    found[os.path.relpath(path, folder)] = _stamp(path)
            except OSError as error:
                miss(error)
    return found, closed


class Mirror:
    """A folder of the job and the place that it is kept in; ``known`` are the files that are there as they are here."""

    forgets = True
    """What the job deletes is deleted there, too."""

    def __init__(self, folder: str, store: FolderStore, known: Optional[Known] = None) -> None:
        self._folder = folder
        self._store = store
        self._known: Dict[str, Stamp] = {name: (row[0], row[1], row[2]) for name, row in (known or {}).items()}
        self._unsettled: Dict[str, float] = {}
        self.errors: Dict[str, str] = {}
        """What cannot be kept now, by name: a sentence without its end."""

    def restore(self) -> Known:
        """Bring everything here; gives what is known then.

        :raises CheckpointError: the place cannot be used.
        :raises OSError: the host's disk is full, or a file cannot be read.
        """
        for name in self._store.names():
            path = os.path.join(self._folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                self._store.fetch(name, path)
            except FileNotFoundError:
                continue  # another host, which runs already, deleted it meanwhile
            self._known[name] = _stamp(path)
        return {name: list(stamp) for name, stamp in self._known.items()}

    def keep(self, now: float, *, everything: bool = False) -> None:
        """Keep what is new or changed, then delete what is gone; ``everything`` waits for no file to settle.

        In this order, and nothing is deleted while a file waits: who writes a checkpoint and deletes the one before
        would have none for as long as the new one takes. ``now`` is in the seconds of the files' times.
        """
        found, closed = self._look()
        self.errors = {path: f"{path} cannot be read" for path in closed}
        self._unsettled = {name: since for name, since in self._unsettled.items() if name in found}
        # What cannot be seen may still be there.
        gone = [name for name in self._known if name not in found] if self.forgets and not closed else []
        for name in gone:
            if any(other.startswith(name + os.sep) for other in found):
                self._try(name, self._forget)  # a folder took its place
        if self._put_all(found, now, everything=everything):
            for name in gone:
                if name in self._known:
                    self._try(name, self._forget)

    def _put_all(self, found: Dict[str, Stamp], now: float, *, everything: bool) -> bool:
        """Put what is new or changed; says whether nothing waits to settle."""
        waits = False
        for name, stamp in found.items():
            if self._known.get(name) == stamp:
                self._unsettled.pop(name, None)
            elif everything or self._is_settled(name, stamp, now):
                self._try(name, partial(self._put, as_it_is=self._is_restless(name, now)))
            else:
                waits = True
        return not waits

    def _look(self) -> Tuple[Dict[str, Stamp], List[str]]:
        return look(self._folder)

    def _is_settled(self, name: str, stamp: Stamp, now: float) -> bool:
        self._unsettled.setdefault(name, now)
        # A time that lies ahead was set by somebody, and says nothing of when the file was written.
        return not 0 <= now - stamp[1] / 1e9 < SETTLED or self._is_restless(name, now)

    def _is_restless(self, name: str, now: float) -> bool:
        return now - self._unsettled.get(name, now) >= TOO_LONG

    def _try(self, name: str, act: Callable[[str], None]) -> None:
        try:
            act(name)
        except FileNotFoundError:
            pass  # the job removed it; the next look sees that
        except OSError as error:
            self.errors[name] = f"{name} could not be kept ({error.strerror or error})"

    def _put(self, name: str, *, as_it_is: bool) -> None:
        """Keep a file; ``as_it_is``: also one that changes during the copy, which counts as what it was before then."""
        path = os.path.join(self._folder, name)
        stamp = _stamp(path)
        if self._store.put(path, name, lambda: as_it_is or _stamp(path) == stamp):
            self._known[name] = stamp
            self._unsettled.pop(name, None)

    def _forget(self, name: str) -> None:
        self._store.remove(name)
        del self._known[name]


def watch(mirror: Mirror, told: int) -> Dict[str, Any]:
    """Keep the checkpoints of a running job until a byte comes through ``told``, and then once more. Blocks."""
    pause = PAUSE
    while not select.select([told], [], [], pause)[0]:
        began = time.monotonic()
        mirror.keep(time.time())
        pause = max(PAUSE, _REST * (time.monotonic() - began))
    # Nothing to read is the end of the agent, who did not say that the job's processes are gone.
    return settle(mirror) if os.read(told, 1) else {"errors": []}


def settle(mirror: Mirror) -> Dict[str, Any]:
    """Keep everything as it is now, when nobody writes any more."""
    mirror.keep(time.time(), everything=True)
    if mirror.errors:
        mirror.keep(time.time(), everything=True)
    return {"errors": list(mirror.errors.values())}


class Keeper:
    """The checkpoints of one job on this host, by errands; of a job without any, nothing is done."""

    what = "checkpoint"
    """How a sentence about trouble begins."""

    def __init__(self, loop: Loop, place: str, folder: str, writer: str) -> None:
        self._loop = loop
        self._place = place
        self._folder = folder
        self._writer = writer
        self._errand: Optional[errand.Errand] = None
        self._known: Optional[Known] = None
        self._pipe = -1
        self._result: Optional[List[str]] = None
        self._done: Optional[Callable[[List[str]], None]] = None

    def is_wanted(self) -> bool:
        """Say whether the job has a place for checkpoints."""
        return bool(self._place)

    def restore(self) -> Known:
        """Bring the checkpoints here; to be called by an errand.

        :raises CheckpointError: the place cannot be used.
        """
        return self._mirror().restore() if self._place else {}

    def _mirror(self) -> Mirror:
        return Mirror(self._folder, FolderStore(self._place, self._writer), self._known)

    def begin(self, known: Known) -> None:
        """Keep them from now on; ``known`` is what :meth:`restore` gave."""
        if not self._place:
            return
        self._known = known
        told, self._pipe = os.pipe()
        errand.KEPT.add(told)
        mirror = self._mirror()
        self._errand = errand.Errand(self._loop, lambda: watch(mirror, told), self._watched)
        errand.KEPT.discard(told)
        os.close(told)

    def drop(self) -> None:
        """Keep nothing from now on: the folder is about to be emptied, which is no wish of the job's."""
        if self._errand is not None:
            self._errand.cancel()

    def end(self, done: Callable[[List[str]], None]) -> None:
        """Keep them once more, now that the job's processes are gone; ``done`` gets sentences about trouble."""
        if self._known is None:
            done([])
            return
        self._done = done
        if self._pipe < 0:
            self._settle()
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b".")

    def _watched(self, result: Optional[Dict[str, Any]], _error: str) -> None:
        os.close(self._pipe)
        self._pipe = -1
        if result is not None:
            self._tell(result["errors"])
        elif self._done is not None:
            self._settle()

    def _settle(self) -> None:
        # The errand ended too early: what it had kept is not known, so everything that differs is kept again.
        mirror = self._mirror()
        self._errand = errand.Errand(self._loop, lambda: settle(mirror), self._settled)

    def _settled(self, result: Optional[Dict[str, Any]], error: str) -> None:
        self._tell([error] if result is None else result["errors"])

    def _tell(self, errors: List[str]) -> None:
        done, self._done = self._done, None
        more = f", and {len(errors) - _TOLD} more" if len(errors) > _TOLD else ""
        if done is not None:
            done([f"{self.what}: {'; '.join(errors[:_TOLD])}{more}."] if errors else [])
