"""What is thrown away in time: folders of hosts that are long gone, and the older half of a long story."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.agent.system.files import rmtree

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

DAY = 86_400.0
MIB = 2**20


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """What is kept: seconds for the folders of ended hosts, bytes of the controller's log before it is put aside."""

    ended_hosts: float = 7 * DAY
    log: int = 10 * MIB


DEFAULT_RETENTION = RetentionPolicy()


def rotate_log(log: Path, most: int) -> bool:
    """Put a log of more than ``most`` bytes aside as ``<name>.1``, over the one before; False when it is short.

    Those who write into it go on: they append, so what comes next is at its new beginning.
    """
    try:
        if not log.exists() or log.stat().st_size <= most:
            return False
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)
    except OSError:
        # A full disk cannot hold two of them; a log that nobody can read is worth less than a controller that runs.
        with suppress(OSError):
            os.truncate(log, 0)
    return True


def prune_hosts(clusters: Path, needed: Collection[str], older_than: float) -> list[str]:
    """Delete the folders of clusters that are not ``needed`` and in which nothing changed since; give their ids.

    ``older_than`` is seconds since the epoch. Blocks.
    """
    gone = []
    for folder in sorted(clusters.glob("*")):
        if folder.name in needed or folder.is_symlink() or not folder.is_dir():
            continue
        if _last_change(folder) < older_than:
            rmtree.remove_if_possible(os.fspath(folder))
            gone.append(folder.name)
    return gone


def _last_change(folder: Path) -> float:
    # Two levels are enough: whatever happens on a host renews a name in its folder.
    moments = [0.0]
    for path in (folder, *folder.glob("*"), *folder.glob("*/*")):
        with suppress(OSError):
            moments.append(path.lstat().st_mtime)
    return max(moments)
