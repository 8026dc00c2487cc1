"""What became of one file that was to be kept somewhere, brought from there, or deleted there."""

from __future__ import annotations

import errno
from typing import Callable, NamedTuple

DONE = "done"
CHANGED = "changed"
"""It changed meanwhile, so it was left."""
GONE = "gone"
"""It is not there any more."""
FULL = "full"
"""There is no room for it."""
AWAY = "away"
"""The place does not answer; a moment later it may."""
REFUSED = "refused"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Outcome(NamedTuple):
    """One of the words above, and what the system or the store said of it."""

    how: str
    said: str = ""


def of(act: Callable[[], bool]) -> Outcome:
    """Do something with files of this machine; False says that one of them changed."""
    try:
        return Outcome(DONE if act() else CHANGED)
    except FileNotFoundError:
        return Outcome(GONE)
    except OSError as error:
        return Outcome(FULL if error.errno in NO_ROOM else REFUSED, error.strerror or str(error))
