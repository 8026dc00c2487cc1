"""Copy files to hosts in separate threads, for the hosts of one cluster one after the other."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from jupyter_smx.engines.machine import provide_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.machine.host_folder import HostFolder

MAX_CLUSTERS = 4
"""Clusters to which files are copied at the same time; others wait."""


class CopyWorkers:
    """Copies files to hosts in separate threads, so that large copies delay only each other.

    Hosts of one cluster take turns, so that the others can reuse the first one's copies.
    """

    def __init__(self, at_once: int = MAX_CLUSTERS) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="bring")
        self._cluster_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def provide_files(
        self, folder: HostFolder, sources: Sequence[str], inside: str, reader: provide_files.FileReader
    ) -> dict[str, str]:
        """Do what :func:`given.bring` does. Cancelled, it ends at the next file or piece of one."""
        given_up = threading.Event()
        turn = self._cluster_locks.setdefault(folder.path.parent.name, asyncio.Lock())
        work = partial(provide_files.provide_files, folder, sources, inside, reader, given_up.is_set)
        async with turn:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
            finally:
                given_up.set()
