"""Leave out links of an input that lead nowhere, as the lock files of editors are, and note which these were."""

from __future__ import annotations

import errno
import os
from typing import List, Tuple

from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.paths import format_name, visible_path

_MAX_STEPS = 40
"""Links that lead to each other are followed as far as Linux follows them."""
_NAMED = 5
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Error numbers of a path to nothing. Others, as of a closed folder or a failing disk, do not show what exists."""


class BrokenLinkError(RefusalError):
    """A source consists of nothing but links that lead nowhere."""


def leads_nowhere(path: str) -> bool:
    """Return True if nothing exists at a path, or where its links lead.

    :raises OSError: the system cannot report it, because a folder is closed or the disk fails.
    """
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        return True
    return False


def is_broken(path: str, hidden: Tuple[Tuple[str, str], ...] = ()) -> bool:
    """Return True if a path is a link to nothing, or to itself.

    A target that exists, but not in the folders of this host's jobs (``hidden``), is another fault with another cure.

    :raises OSError: the target is closed to us, or on a disk that fails.
    """
    if not os.path.islink(path) or not leads_nowhere(path):
        return False
    for _ in range(_MAX_STEPS):
        try:
            text = os.readlink(path)
        except OSError:
            return True
        path = visible_path(text, hidden) if os.path.isabs(text) else os.path.join(os.path.dirname(path), text)
        if not leads_nowhere(path):
            return False
    return True


class BrokenLinks:
    """The broken links of one channel: walks leave out what :meth:`is_dropped` names, and :meth:`note` describes it."""

    def __init__(self, hidden: Tuple[Tuple[str, str], ...] = ()) -> None:
        self._hidden = hidden
        self._found: List[str] = []

    def is_dropped(self, path: str) -> bool:
        """Return True if a path is a broken link, and remember it.

        :raises OSError: its target cannot be looked up, so the path may be data that must not be left out.
        """
        if not is_broken(path, self._hidden):
            return False
        if path not in self._found:
            self._found.append(path)
        return True

    def reset(self) -> None:
        """Forget the links that were found, before the channel is walked through in another way."""
        self._found = []

    def keep(self, pairs: List[Tuple[str, str]], channel: str, source: str) -> List[Tuple[str, str]]:
        """Return the pairs of name and path without broken links.

        :raises BrokenLinkError: nothing is left of a source that is no folder.
        :raises OSError: the target of a link cannot be looked up.
        """
        kept = [(name, path) for name, path in pairs if not self.is_dropped(path)]
        if pairs and not kept and not os.path.isdir(source):
            text = os.readlink(self._found[0])
            raise BrokenLinkError(
                f"channel {channel}: {source!r} is a link to {text!r}, which does not exist. "
                "Name the file or folder itself, or make the link again."
            )
        return kept

    def note(self, channel: str, source: str) -> str:
        """Write a note about the links that were left out, by their names below ``source``; "" if there are none."""
        if not self._found:
            return ""
        names = [format_name(_inner_name(path, source)) for path in sorted(self._found)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = "a link that leads nowhere was" if len(names) == 1 else f"{len(names)} links that lead nowhere were"
        return f"channel {channel}: {what} left out: {', '.join(names[:_NAMED])}{more}."


def _inner_name(path: str, source: str) -> str:
    top = source.rstrip(os.sep) + os.sep
    return path[len(top) :] if path.startswith(top) else os.path.basename(path)
