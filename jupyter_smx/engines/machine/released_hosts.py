"""Remove what only living hosts need, without letting a release wait for a folder of many files."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine.host_folder import RELEASED_MARKER, HostFolder, host_names

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence
    from pathlib import Path

PATIENCE = 3.0
"""Seconds that a release waits for the deletion of files."""


class ReleasedHosts:
    """Removes files of hosts that have ended; what takes longer than ``patience`` seconds goes on in a thread.

    The thread ends with the process, and the next controller removes the rest by :func:`remove_released`.
    """

    def __init__(self, log: logging.Logger, patience: float = PATIENCE) -> None:
        self._log = log
        self._patience = patience
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}

    def remove(self, cluster: str, folders: Sequence[HostFolder]) -> None:
        """Remove sockets, links and control groups of a cluster's hosts, then their files. Blocks ``patience`` seconds.

        A repeated call waits for the deletion that is under way.
        """
        for folder in folders:
            self._warn(cluster, folder.remove_names())
        with self._lock:
            thread = self._threads.get(cluster)
            if thread is None:
                arguments = (cluster, [*folders])
                thread = threading.Thread(
                    target=self._remove_files, args=arguments, name=f"remove {cluster}", daemon=True
                )
                self._threads[cluster] = thread
                thread.start()
        thread.join(self._patience)
        if thread.is_alive():
            self._log.info("cluster=%s released: the deletion of its many files continues", cluster)

    def _remove_files(self, cluster: str, folders: Sequence[HostFolder]) -> None:
        try:
            for folder in folders:
                self._warn(cluster, folder.remove_files())
        finally:
            with self._lock:
                del self._threads[cluster]

    def _warn(self, cluster: str, problem: str) -> None:
        if problem:
            self._log.warning("cluster=%s released: %s", cluster, problem)


def remove_released(clusters: Path) -> None:
    """Remove files of released hosts in a folder of clusters, if the process that released them ended before. Blocks.

    What cannot be removed is tried again with the whole folder, when the cluster is old.
    """
    for cluster in clusters.glob(f"*/{RELEASED_MARKER}"):
        with suppress(OSError):
            for name in host_names(cluster.parent):
                HostFolder(cluster.parent / name).remove_files()
