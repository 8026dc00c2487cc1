"""Mirror a folder of a running job in one background task, and once more after the job ends."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from jupyter_smx.agent.channels.checkpoint import CheckpointStore, FileStamps, Mirror
from jupyter_smx.agent.channels.object_store import open_store
from jupyter_smx.agent.paths import checkpoint_folder, visible_path
from jupyter_smx.agent.system.processes import forked_task

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer

PAUSE = 1.0
"""Seconds between two looks at the folder; a look that takes long is followed by a longer pause."""
_PAUSE_FACTOR = 5.0
"""Factor between the time of a scan and the pause after it."""
_MAX_PAUSE = 30.0
"""Seconds that a pause takes at most, since a look may have waited for a store."""
_RESTART_DELAY = 5.0
"""Seconds before a new task replaces one that ended early; doubled each time."""
_RETRY_DELAY = 2.0
"""Seconds before the next try at a job's end, where the place does not answer."""
_MAX_ERRORS = 3


def sync_until_end(mirror: Mirror, told: int) -> Dict[str, Any]:
    """Keep the checkpoints of a running job until a byte arrives, and then once more. Blocks."""
    pause = PAUSE
    while not select.select([told], [], [], pause)[0]:
        began = time.monotonic()
        mirror.sync(time.time())
        pause = min(max(PAUSE, _PAUSE_FACTOR * (time.monotonic() - began)), _MAX_PAUSE)
    # An end of file: the agent died, and the job's processes may still run.
    return sync_final(mirror) if os.read(told, 1) else {"errors": [], "notes": []}


def sync_final(mirror: Mirror) -> Dict[str, Any]:
    """Keep the final state, after the last write; wait for a store that does not answer."""
    until = time.monotonic() + mirror.patience
    mirror.sync(time.time(), everything=True)
    if mirror.errors:
        mirror.sync(time.time(), everything=True)
    while mirror.is_unreachable() and time.monotonic() < until:
        time.sleep(_RETRY_DELAY)
        mirror.sync(time.time(), everything=True)
    return mirror.report()


class MirrorTask:
    """Mirrors the checkpoints of one job on this host in forked tasks; does nothing for a job without any."""

    what = "checkpoint"
    """First word of error messages."""

    def __init__(self, loop: Loop, store: Optional[CheckpointStore], folder: str) -> None:
        self._loop = loop
        self._store = store
        self._folder = folder
        self._task: Optional[forked_task.ForkedTask] = None
        self._restart_timer: Optional[Timer] = None
        self._restart_delay = _RESTART_DELAY
        self._restored_stamps: Optional[FileStamps] = None
        self._pipe = -1
        self._done: Optional[Callable[[List[str]], None]] = None
        self.notes: List[str] = []

    @property
    def final_task(self) -> Optional[forked_task.ForkedTask]:
        """The task that keeps them for the last time; None if no caller waits for that."""
        return self._task if self._done is not None else None

    def has_store(self) -> bool:
        """Return True if the job has a place for checkpoints."""
        return self._store is not None

    def restore(self) -> FileStamps:
        """Restore the checkpoints; to be called in a background task.

        :raises CheckpointError: the place cannot be used.
        """
        if self._store is None:
            return {}
        os.makedirs(self._folder, exist_ok=True)
        return self._mirror(self._store).restore()

    def _mirror(self, store: CheckpointStore) -> Mirror:
        return Mirror(self._folder, store, self._restored_stamps)

    def start(self, known: FileStamps) -> None:
        """Mirror the checkpoints from now on; ``known`` is the result of :meth:`restore`."""
        if self._store is None:
            return
        self._restored_stamps = known
        told, self._pipe = os.pipe()
        forked_task.PRESERVED_FDS.add(told)
        mirror = self._mirror(self._store)
        self._task = forked_task.ForkedTask(self._loop, lambda: sync_until_end(mirror, told), self._on_watch_exit)
        forked_task.PRESERVED_FDS.discard(told)
        os.close(told)

    def cancel(self) -> None:
        """Keep nothing from now on: the agent is about to empty the folder, which is no action of the job."""
        self._cancel_restart()
        if self._task is not None:
            self._task.cancel()

    def _cancel_restart(self) -> None:
        if self._restart_timer is not None:
            self._restart_timer.cancel()

    def finish(self, done: Callable[[List[str]], None]) -> None:
        """Mirror them once more, now that the job's processes are gone; ``done`` gets sentences about errors."""
        self._cancel_restart()
        if self._restored_stamps is None:
            done([])
            return
        self._done = done
        if self._pipe < 0:
            self._start_final_sync()
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b".")

    def _on_watch_exit(self, result: Optional[Dict[str, Any]], error: str) -> None:
        os.close(self._pipe)
        self._pipe = -1
        if result is not None:
            self._report(result)
        elif self._task is not None and self._task.was_aborted:
            # Another one would stand still at the same place, for as long again.
            self._on_final_sync(None, error)
        elif self._done is not None:
            self._start_final_sync()
        else:
            # A job may run on for a day, and lose its host with all that it saves from now on.
            self._restart_timer = self._loop.later(self._restart_delay, self._restart)
            self._restart_delay = min(2 * self._restart_delay, _MAX_PAUSE)

    def _restart(self) -> None:
        if self._restored_stamps is not None:
            self.start(self._restored_stamps)

    def _start_final_sync(self) -> None:
        if self._store is None:
            return
        # The task ended too early: what it had stored is unknown, so store everything again that differs.
        mirror = self._mirror(self._store)
        self._task = forked_task.ForkedTask(self._loop, lambda: sync_final(mirror), self._on_final_sync)

    def _on_final_sync(self, result: Optional[Dict[str, Any]], error: str) -> None:
        self._report({"errors": [error], "notes": []} if result is None else result)

    def _report(self, result: Dict[str, Any]) -> None:
        done, self._done = self._done, None
        errors: List[str] = result["errors"]
        self.notes = [f"{self.what}: {note}" for note in result["notes"]]
        more = f", and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
        if done is not None:
            done([f"{self.what}: {'; '.join(errors[:_MAX_ERRORS])}{more}."] if errors else [])


def checkpoint_task(host: Host, job: str, spec: CompleteSpec) -> MirrorTask:
    """Take the place where the checkpoints of a job are kept, if it has one."""
    place, writer = visible_path(spec["checkpoint"], host.hidden), f"{job}-{host.config.host}"
    store = open_store(place, writer, host.worker_options(spec["environment"]), what=MirrorTask.what)
    # By the name that this host has for it, also where jobs have another one.
    folder = host.info._replace(base=host.folder.ml).real_path(checkpoint_folder(spec), "checkpoint_local_path")
    return MirrorTask(host.loop, store, folder)
