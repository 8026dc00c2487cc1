"""Retention: limit the size of records, log and folders, in threads beside the controller's loop."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.controller.errors import FencedError, RecordsError, is_records_disk_full
from jupyter_smx.controller.transfer.unused_payloads import delete_unused_payloads
from jupyter_smx.engines.machine.released_hosts import remove_released
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine

_log = logging.getLogger(__name__)

DAY = 86_400.0
MIB = 2**20
MANY_WRITES = 1_000
"""Transactions after which the write-ahead log is moved into the records although more are coming."""
LONG_LOG = 4 * MIB
"""Bytes of the write-ahead log that are worth the reserve."""
CLEAN_FIRST = 60.0
"""Seconds from the start until the first deletion of old files, because the first job comes first."""
CLEAN_EVERY = 3_600.0
"""Seconds between two such looks."""
MAX_EVENTS = 20_000


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """Limits: seconds for the folders of ended hosts, bytes of the controller's log before it is rotated."""

    ended_hosts: float = 7 * DAY
    log: int = 10 * MIB


DEFAULT_RETENTION = RetentionPolicy()


class Retention:
    """Two background jobs, each run once at a time and outside the event loop; ``tick`` starts those that are due.

    ``clock`` returns seconds since the epoch, to compare with the times of files.
    """

    def __init__(
        self,
        live_state: LiveState,
        data_dir: Path,
        retention: RetentionPolicy,
        clock: Callable[[], float],
        engine_of: Callable[[str], Engine],
    ) -> None:
        self._live_state = live_state
        self._data_dir = data_dir
        self._retention = retention
        self._clock = clock
        self._engine_of = engine_of
        self._engines: set[str] = set()
        self._writes_seen = self._writes_moved = 0
        self._has_inherited_log = live_state.store.log_size() > LONG_LOG
        """True until the long write-ahead log of earlier controllers is moved, which were killed before they did it."""
        self._clean_at = math.inf
        self._checkpoint_task: asyncio.Task[None] | None = None
        self._cleanup_task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Count the time until the first cleaning from now on."""
        self._clean_at = self._live_state.monotonic() + CLEAN_FIRST

    def tick(self) -> None:
        """Begin what is due; called once a second."""
        self._engines.update(cluster.key.engine for cluster in self._live_state.clusters.values())
        self._live_state.store.reserve.restore()
        self._checkpoint_if_due()
        self._clean_if_due()

    async def close(self) -> None:
        """Leave what is under way to its threads, which are through with it or end by themselves."""
        under_way = [task for task in (self._checkpoint_task, self._cleanup_task) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _checkpoint_if_due(self) -> None:
        """Move the write-ahead log after a second without writes, when the disk is free; a long inherited one now."""
        store = self._live_state.store
        quiet, self._writes_seen = store.writes == self._writes_seen, store.writes
        waiting = store.writes - self._writes_moved
        is_due = self._has_inherited_log or waiting > MANY_WRITES or (waiting and quiet)
        if is_due and _is_over(self._checkpoint_task):
            self._checkpoint_task = asyncio.create_task(self._checkpoint(), name="moving the write-ahead log")

    async def _checkpoint(self) -> None:
        store = self._live_state.store
        written = store.writes
        try:
            if await asyncio.to_thread(store.checkpoint):
                self._writes_moved = written
                self._has_inherited_log = False
            # After it, since on a full disk only the checkpoint makes room for another write.
            self._prune_events()
        except FencedError:
            return  # the reconcile loop sees it at its next pass, and ends
        except RecordsError as error:
            _log.warning("write-ahead log checkpoint failed, will be retried: %s", error)
            # A long log has many versions of a page, so its move needs less than the reserve and frees much more.
            if is_records_disk_full(error) and store.log_size() > LONG_LOG and store.reserve.release():
                _log.warning("reserve freed for a write-ahead log of %d bytes", store.log_size())

    def _prune_events(self) -> None:
        store = self._live_state.store
        before = store.writes
        store.prune_events(MAX_EVENTS)
        # This write alone is no reason for another checkpoint.
        self._writes_seen += store.writes - before
        self._writes_moved += store.writes - before

    def _clean_if_due(self) -> None:
        """Begin to throw away what is not needed, for which a disk may take minutes where there are many files."""
        now = self._live_state.monotonic()
        if now >= self._clean_at and _is_over(self._cleanup_task):
            self._clean_at = now + CLEAN_EVERY
            self._cleanup_task = asyncio.create_task(self._clean(self._clock()), name="cleaning")

    async def _clean(self, now: float) -> None:
        try:
            await self._delete_unused(now)
        except Exception:  # noqa: BLE001 - the border of a task without a caller; it is tried again in an hour
            _log.exception("cleanup of unused files failed")

    async def _delete_unused(self, now: float) -> None:
        jobs = self._live_state.jobs
        needed = [path for job in jobs.values() for path in job.spec.payloads()]
        await asyncio.to_thread(delete_unused_payloads, self._data_dir / "payloads", needed, now)
        in_use = {*self._live_state.clusters, *(job.cluster for job in jobs.values())}
        old = now - self._retention.ended_hosts
        for place in self._cluster_folders():
            await asyncio.to_thread(remove_released, place)
            for cluster in await asyncio.to_thread(prune_hosts, place, in_use, old):
                _log.info("cluster=%s host folders deleted", cluster)
        await asyncio.to_thread(rotate_log, self._data_dir / "controller.log", self._retention.log)
        for name in sorted(self._engines):
            await self._clean_up_engine(name, in_use, old)

    async def _clean_up_engine(self, name: str, in_use: Collection[str], old: float) -> None:
        """Run an engine's sweep of hosts without a record, and delete what old ones left on other machines."""

        def is_needed(cluster_id: str) -> bool:
            if cluster_id in in_use or cluster_id in self._live_state.clusters:
                return True
            ended = self._live_state.store.cluster(cluster_id)
            return ended is not None and (ended.ended_at or 0.0) > old

        self._live_state.store.check_owner()
        try:
            engine = self._engine_of(name)
            swept = await engine.sweep(lambda: [*self._live_state.clusters])
            pruned = await engine.prune(is_needed)
        except (SmxError, OSError) as error:
            _log.info("engine=%s cleanup failed, will be retried: %s", name, error)
            return
        if swept:
            _log.warning("engine=%s hosts without a record ended: %s", name, ", ".join(swept))
        for cluster in pruned:
            _log.info("cluster=%s results on other machines deleted", cluster)

    def _cluster_folders(self) -> set[Path]:
        """Return the folders that contain folders of clusters: this controller's, and those of its engines."""
        found = {self._data_dir / "clusters"}
        for name in self._engines:
            with suppress(SmxError):  # it is not installed any more
                found.add(self._engine_of(name).clusters_folder() or self._data_dir / "clusters")
        return found


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()


def rotate_log(log: Path, most: int) -> bool:
    """Rename a log of more than ``most`` bytes to ``<name>.1``, over the one before; return False if it is shorter.

    Processes that write into it continue: they append, so their next line is at the new beginning.
    """
    try:
        if not log.exists() or log.stat().st_size <= most:
            return False
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)
    except OSError:
        # A full disk has no room for the copy; drop the old lines, because the controller must go on.
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
