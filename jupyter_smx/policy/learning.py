"""Which imports of a finished job an idle host should have ready for the next one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.cluster import Host


def worth_learning(asked: Iterable[str], imported: Iterable[str], host: Host) -> tuple[str, ...]:
    """Choose from what the code imports at its top (dotted) and what it had imported at its end (top-level packages).

    What is there, what could not be preloaded before, and the standard library, which costs next to nothing, are not
    worth it. A package of which a part is asked for comes with that part.
    """
    known = {*host.preloaded, *host.preload_failures}
    roots = {_root(name) for name in known}
    failed = {_root(name) for name in host.preload_failures}
    parts = [name for name in asked if name not in known and _root(name) not in failed | sys.stdlib_module_names]
    covered = roots | {_root(name) for name in parts}
    return tuple(dict.fromkeys([*parts, *(name for name in imported if name not in covered)]))


def _root(name: str) -> str:
    return name.partition(".")[0]
