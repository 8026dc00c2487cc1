"""Checkpoints: restore a folder of the job before the start, and mirror it while the job runs.

As on SageMaker: what is deleted here is deleted there, what others put there later is not fetched, and all hosts of a
job keep theirs in the same place, without their names in it, so that of equal names the last one written stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Protocol, Set, Tuple

from jupyter_smx.agent.errors import CHANGED, DONE, FULL, MISSING, UNREACHABLE, FileResult, RefusalError, attempt
from jupyter_smx.agent.stores import scan
from jupyter_smx.agent.system.files import safe_open, walk

NAME = "checkpoints"
SETTLE_SECONDS = 1.0
"""Seconds without a change after which a file counts as written."""
SETTLE_TIMEOUT = 30.0
"""Seconds after which a file that never settles, as a log does not, is kept as it is."""
_NOTES = 5
_TRIES = 3
"""Number of attempts to create a folder that another host removes before the file is in it."""

_UNKNOWN_STAMP: scan.Stamp = (-1, -1, -1)
"""Stamp of no file: marks a file that may or may not have been stored."""

FileStamps = Dict[str, List[int]]
UploadRow = Tuple[str, str, Optional[scan.Stamp]]
"""A file to be kept: its path, its name, and what it has to be like still when it was read; None: whatever it is."""


class CheckpointError(RefusalError):
    """A place for checkpoints that cannot be used."""


class CheckpointStore(Protocol):
    """A place for checkpoints, in which a file appears whole or not at all."""

    is_flat: bool
    """A name may be a file's and a folder's at once, so that nothing has to go before something else can come."""
    patience: float
    """Seconds that it is waited for at the end of a job where it does not answer."""

    def names(self) -> List[str]:
        """Return the names of the files in the store."""

    def download(self, rows: List[Tuple[str, str]]) -> List[bool]:
        """Download files by name to paths; False for each file that no longer exists."""

    def upload(self, rows: List[UploadRow]) -> List[FileResult]:
        """Upload files to the store."""

    def delete(self, names: List[str]) -> List[FileResult]:
        """Delete files there."""

    def remove_partial_files(self) -> None:
        """Delete what this writer was writing aside when it was killed, as far as that goes."""


class _DestinationMissingError(OSError):
    """Something of the place is not there, whatever is done; the file that is to be kept is."""


class FolderStore:
    """A folder as the place of checkpoints.

    ``writer`` is part of the temporary file's name, so that hosts and jobs that share the folder do not collide.
    Unless ``is_ours``, no subfolder is deleted there.
    """

    is_flat = False
    patience = 0.0

    def __init__(self, root: str, writer: str, *, is_ours: bool = True) -> None:
        self._root = root
        self._is_ours = is_ours
        self._part = os.path.join(root, scan.PART + writer)

    def names(self) -> List[str]:
        """Return the names of the files in the folder, which is created if it is missing.

        :raises CheckpointError: it cannot be made or read.
        """
        try:
            os.makedirs(self._root, exist_ok=True)
            self.remove_partial_files()
            found, closed, _is_whole = scan.scan_folder(self._root)
        except OSError as error:
            raise CheckpointError(f"checkpoint: {self._root} cannot be used ({error.strerror}).") from None
        if closed:
            raise CheckpointError(f"checkpoint: {closed[0]} cannot be read.")
        return sorted(name for name in found if not name.startswith(scan.PART))

    def download(self, rows: List[Tuple[str, str]]) -> List[bool]:
        """Copy files from the folder; False for each file that another host deleted meanwhile."""
        return [self._download_one(name, path) for name, path in rows]

    def remove_partial_files(self) -> None:
        """Delete what an attempt of this job was writing here when it was killed."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._part)

    def _download_one(self, name: str, path: str) -> bool:
        try:
            self.fetch(name, path)
        except FileNotFoundError:
            return False
        return True

    def upload(self, rows: List[UploadRow]) -> List[FileResult]:
        """Copy files there, one after the other."""
        return [attempt(partial(self._upload_one, *row)) for row in rows]

    def _upload_one(self, path: str, name: str, stamp: Optional[scan.Stamp]) -> bool:
        try:
            return self.put(path, name, lambda: stamp is None or scan.read_stamp(path) == stamp)
        except FileNotFoundError as error:
            if not os.path.exists(path):
                raise
            # A missing source is no error: the job deleted the file. Here the destination is missing.
            raise _DestinationMissingError(error.errno, error.strerror, error.filename) from error

    def delete(self, names: List[str]) -> List[FileResult]:
        """Delete files there, one after the other."""
        return [attempt(partial(self.remove, name)) for name in names]

    def fetch(self, name: str, path: str) -> None:
        """Copy a file from there to ``path``."""
        safe_open.copy(os.path.join(self._root, name), path)

    def put(self, path: str, name: str, is_same: Callable[[], bool]) -> bool:
        """Copy a file to the folder, whole or not at all; return False if it changed during the copy."""
        target = os.path.join(self._root, name)
        with contextlib.suppress(FileNotFoundError):  # as below
            walk.make_folders(os.path.dirname(target))
        try:
            return self._write_and_rename(path, target, is_same)
        except OSError:
            # On a full disk it has the very room that is missing, and it lies among the user's files.
            with contextlib.suppress(OSError):
                os.unlink(self._part)
            raise

    def _write_and_rename(self, path: str, target: str, is_same: Callable[[], bool]) -> bool:
        import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

        safe_open.copy(path, self._part)
        if not is_same():
            os.unlink(self._part)
            return False
        if os.path.isdir(target) and not os.path.islink(target):
            if not self._is_ours:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
            shutil.rmtree(target)  # a folder here became a file
        for _try in range(_TRIES):
            # Another host may have removed the folder, empty, during the copy above: create it again.
            with contextlib.suppress(FileNotFoundError):
                walk.make_folders(os.path.dirname(target))
                os.replace(self._part, target)
                return True
        os.replace(self._part, target)
        return True

    def remove(self, name: str) -> bool:
        """Delete a file there, and the folders that it leaves empty."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(self._root, name))
        folder = os.path.dirname(name)
        with contextlib.suppress(OSError):
            while folder:
                os.rmdir(os.path.join(self._root, folder))
                folder = os.path.dirname(folder)
        return True


class Mirror:
    """A folder of the job and the place that stores it; ``known`` are the files that are the same in both."""

    propagates_deletes = True
    """True if files that the job deletes are deleted in the store, too."""

    def __init__(self, folder: str, store: CheckpointStore, known: Optional[FileStamps] = None) -> None:
        self._folder = folder
        self._store = store
        self._known: Dict[str, scan.Stamp] = {name: (row[0], row[1], row[2]) for name, row in (known or {}).items()}
        self._unsettled: Dict[str, float] = {}
        self._unreachable = UnreachablePeriods()
        self.errors: Dict[str, str] = {}
        """Error messages by file name, without a full stop."""

    def restore(self) -> FileStamps:
        """Copy everything to this host; return the stamps of the files.

        :raises CheckpointError: the place cannot be used.
        :raises OSError: the host's disk is full, or a file cannot be read.
        """
        rows = [(name, os.path.join(self._folder, name)) for name in self._store.names()]
        for _name, path in rows:
            walk.make_folders(os.path.dirname(path))
        for (name, path), came in zip(rows, self._store.download(rows)):
            if came:
                self._known[name] = scan.read_stamp(path)
        return {name: list(stamp) for name, stamp in self._known.items()}

    def sync(self, now: float, *, everything: bool = False) -> None:
        """Keep new and changed files, then delete removed ones; ``everything`` includes files that still change.

        Nothing is deleted while a file waits or cannot be kept. Otherwise a job that writes a checkpoint and deletes
        the one before would have none during the upload. Exception: without space, removed files are deleted first.
        Nothing is deleted while the folder itself is missing, as after a job that removed it. ``now`` is in the seconds
        of the files' times.
        """
        found, closed, is_whole = self._scan_folder()
        self.errors = {path: f"{path} cannot be read" for path in closed}
        self._unreachable.begin_pass()
        self._unsettled = {name: since for name, since in self._unsettled.items() if name in found}
        # Unreadable files may still exist, and a script may have replaced this folder by another one.
        is_sure = self.propagates_deletes and is_whole and not closed
        gone = [name for name in self._known if name not in found] if is_sure else []
        if not self._store.is_flat:
            self._delete([name for name in gone if any(other.startswith(name + os.sep) for other in found)])
        if self._upload_changed(found, now, everything=everything):
            self._delete([name for name in gone if name in self._known])
        else:
            self._delete([name for name in gone if name in self._known and self._is_in_the_way(name)])
        self._unreachable.end_pass(now, is_whole=not self.errors)

    def is_unreachable(self) -> bool:
        """Return True if the store did not answer at the last attempt."""
        return self._unreachable.since is not None

    def report(self) -> Dict[str, Any]:
        """Return the current errors and notes."""
        return {"errors": list(self.errors.values()), "notes": self._unreachable.notes}

    @property
    def patience(self) -> float:
        """Seconds that the place is waited for at the end of the job."""
        return self._store.patience

    def _is_in_the_way(self, name: str) -> bool:
        """Return True if a stored file or folder of this name prevents the upload of another file."""
        wanted = [other for other in self.errors if other not in self._unreachable.names]
        return any(other.startswith(name + os.sep) or name.startswith(other + os.sep) for other in wanted)

    def _upload_changed(self, found: Dict[str, scan.Stamp], now: float, *, everything: bool) -> bool:
        """Upload new and changed files; return True if no file waits to settle and all uploads succeeded."""
        due, waits = [], False
        for name, stamp in found.items():
            if self._known.get(name) == stamp:
                self._unsettled.pop(name, None)
            elif everything or self._is_settled(name, stamp, now):
                due.append(name)
            else:
                waits = True
        return self._upload(due, now) and not waits

    def _scan_folder(self) -> scan.FolderScan:
        return scan.scan_folder(self._folder)

    def _is_settled(self, name: str, stamp: scan.Stamp, now: float) -> bool:
        self._unsettled.setdefault(name, now)
        # A time in the future was set by a program, and does not show when the file was written.
        return not 0 <= now - stamp[1] / 1e9 < SETTLE_SECONDS or self._is_settle_timed_out(name, now)

    def _is_settle_timed_out(self, name: str, now: float) -> bool:
        return now - self._unsettled.get(name, now) >= SETTLE_TIMEOUT

    def _upload(self, names: List[str], now: float) -> bool:
        """Upload files. A file that never settles is uploaded even if it changes meanwhile, with its earlier stamp."""
        stamps: Dict[str, scan.Stamp] = {}
        for name in names:
            with contextlib.suppress(OSError):  # the job removed or renamed it; the next scan shows that
                stamps[name] = scan.read_stamp(os.path.join(self._folder, name))
        is_whole = len(stamps) == len(names)
        rows: List[UploadRow] = [
            (os.path.join(self._folder, name), name, None if self._is_settle_timed_out(name, now) else stamp)
            for name, stamp in stamps.items()
        ]
        for name, found in zip(stamps, self._store.upload(rows) if rows else []):
            if found.status == DONE:
                self._known[name] = stamps[name]
                self._unsettled.pop(name, None)
            else:
                if found.status == UNREACHABLE:
                    # The file may be stored and only the answer lost: then a deletion must be propagated, too.
                    self._known.setdefault(name, _UNKNOWN_STAMP)
                self._record_error(name, found)
                # If a file is gone, the job may have made it again since; the next scan finds that.
                is_whole = is_whole and found.status == FULL
        return is_whole

    def _record_error(self, name: str, found: FileResult) -> None:
        if found.status in (CHANGED, MISSING):
            return
        self.errors[name] = f"{name} could not be kept ({found.message})"
        if found.status == UNREACHABLE:
            self._unreachable.record_failure(name, found.message)

    def _delete(self, names: List[str]) -> None:
        for name, found in zip(names, self._store.delete(names) if names else []):
            if found.status in (DONE, MISSING):
                del self._known[name]
            else:
                self._record_error(name, found)


class UnreachablePeriods:
    """Times in which a place did not answer."""

    def __init__(self) -> None:
        self.since: Optional[float] = None
        self.names: Set[str] = set()
        self.notes: List[str] = []
        self._message = ""

    def begin_pass(self) -> None:
        """Begin a look."""
        self.names = set()

    def record_failure(self, name: str, said: str) -> None:
        """Take note of a file that it did not take."""
        self.names.add(name)
        self._message = said

    def end_pass(self, now: float, *, is_whole: bool) -> None:
        """End a look, by which everything is kept or not."""
        if self.names:
            self.since = now if self.since is None else self.since
        elif self.since is not None:
            times = " and ".join(time.strftime("%H:%M:%S", time.gmtime(moment)) for moment in (self.since, now))
            since = "; all files are saved since" if is_whole else ""
            self.notes.append(f"the store did not answer between {times} UTC ({self._message}){since}.")
            self.notes = self.notes[-_NOTES:]
            self.since = None
