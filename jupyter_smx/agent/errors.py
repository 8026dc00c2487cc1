"""What the agent's processes cannot do: a refusal for the user, a full disk, and the result for one file."""

from __future__ import annotations

import errno
from typing import Callable, NamedTuple, Optional

DONE = "done"
"""Status of a file that is kept, fetched or deleted, as was asked."""
CHANGED = "changed"
"""It changed meanwhile, so it was left."""
MISSING = "gone"
"""It is not there any more."""
FULL = "full"
"""There is no room for it."""
UNREACHABLE = "away"
"""The place does not answer; a moment later it may."""
REFUSED = "refused"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the system says where there is no room, or where the user's quota is used up."""

EXIT_DISK_FULL = 5
"""Exit code of an agent that found no room to write down what its host needs."""


class RefusalError(Exception):
    """Something cannot be done here; the text is a sentence for the user, and says what to do."""


class FileResult(NamedTuple):
    """One of the words above, and what the system or the store said of it."""

    status: str
    message: str = ""


def is_full(error: BaseException) -> bool:
    """Say whether an error means that there is no room."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def find_errno(error: Optional[BaseException]) -> int:
    """Give the system's number of an error, also where a library put its words over it; 0 where there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0


def attempt(act: Callable[[], bool]) -> FileResult:
    """Do something with files of this machine; False says that one of them changed."""
    try:
        return FileResult(DONE if act() else CHANGED)
    except FileNotFoundError:
        return FileResult(MISSING)
    except OSError as error:
        return FileResult(FULL if is_full(error) else REFUSED, error.strerror or str(error))
