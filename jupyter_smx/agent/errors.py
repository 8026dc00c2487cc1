"""Errors of the agent's processes: a refusal for the user, a full disk, and the result for one file."""

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

EXIT_CLAIMED = 3
"""Exit code of an agent whose host has one already."""
EXIT_DISK_FULL = 5
"""Exit code of an agent that cannot write the files of its host to a full disk."""


class RefusalError(Exception):
    """Something cannot be done on this host; the text is a sentence for the user, with a remedy."""


class FileResult(NamedTuple):
    """Result for one file: a status of the above, and the message of the system or the store."""

    status: str
    message: str = ""


def is_full(error: BaseException) -> bool:
    """Return whether an error means a full disk."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


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
