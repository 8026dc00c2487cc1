"""Errors of the agent's processes: a refusal for the user, a disk that fails for a while, the result for one file."""

from __future__ import annotations

import errno
from typing import Callable, NamedTuple, Optional

DONE = "done"
"""Status of a file that was uploaded, downloaded or deleted."""
CHANGED = "changed"
"""The file changed meanwhile, so it was left as it is."""
MISSING = "gone"
"""The file does not exist any more."""
FULL = "full"
"""The disk or store has no room for it."""
UNREACHABLE = "away"
"""The store does not answer; later it may."""
REFUSED = "refused"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk and of a used-up quota."""

_UNTIL_MENDED = (*NO_ROOM, errno.EROFS)
"""Error numbers that stay until a person frees space or mounts the file system for writing."""
_BRIEF = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
"""Error numbers of a file system whose server or device does not answer: most of these outages are short."""
TEMPORARY = (*_UNTIL_MENDED, *_BRIEF)
"""Error numbers of a file system that may work again."""
OUTAGE_LIMIT = 600.0
"""Seconds after which a file system that still fails counts as broken."""

EXIT_CLAIMED = 3
"""Exit code of an agent whose host has one already."""
EXIT_DISK_FULL = 5
"""Exit code of an agent that cannot write the files of its host to a full disk."""
EXIT_DISK_FAILS = 6
"""Exit code of an agent whose file system is read-only or fails, which may pass."""
EXIT_OPT_ML_TAKEN = 7
"""Exit code of an agent whose jobs would find the files of another host in the machine's ``/opt/ml``."""


class RefusalError(Exception):
    """Something cannot be done on this host; the text is a sentence for the user, with a remedy."""


class FileResult(NamedTuple):
    """Result for one file: a status of the above, and the message of the system or the store."""

    status: str
    message: str = ""


def is_full(error: BaseException) -> bool:
    """Return whether an error means a full disk."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def is_outage(error: BaseException) -> bool:
    """Return whether a file system failed in a way that mostly passes within seconds: EIO, ESTALE, ETIMEDOUT."""
    return find_errno(error) in _BRIEF


def is_temporary(error: BaseException, waited: float = 0.0) -> bool:
    """Return whether a file may be written or read later, after ``waited`` seconds in which it failed already.

    A full or read-only file system is waited for without end, another outage for ``OUTAGE_LIMIT`` seconds.
    """
    return find_errno(error) in _UNTIL_MENDED or (is_outage(error) and waited < OUTAGE_LIMIT)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an agent that cannot write the files of its host."""
    if is_full(error):
        return EXIT_DISK_FULL
    return EXIT_DISK_FAILS if is_temporary(error) else 1


def find_errno(error: Optional[BaseException]) -> int:
    """Return the system's number of an error, also of one that a library wrapped; 0 if there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0


def attempt(act: Callable[[], bool]) -> FileResult:
    """Do something with files of this machine; False means that one of them changed."""
    try:
        return FileResult(DONE if act() else CHANGED)
    except FileNotFoundError:
        return FileResult(MISSING)
    except OSError as error:
        return FileResult(FULL if is_full(error) else REFUSED, error.strerror or str(error))
