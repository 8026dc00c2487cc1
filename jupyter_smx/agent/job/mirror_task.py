"""Keeps a folder of a running job elsewhere: by one errand until the job is over, then once more, whatever happened."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from jupyter_smx.agent.channels.checkpoint import Known, Mirror, Store
from jupyter_smx.agent.channels.object_store import store_of
from jupyter_smx.agent.paths import checkpoints, seen_at
from jupyter_smx.agent.system.processes import forked_task

if TYPE_CHECKING:
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer

PAUSE = 1.0
"""Seconds between two looks at the folder; a look that takes long is followed by a longer pause."""
_REST = 5.0
"""How much longer the pause is than the look."""
_LONGEST = 30.0
"""Seconds that a pause takes at most, since a look may have waited for a store."""
_BREATH = 5.0
"""Seconds before another errand takes the place of one that ended early; twice as many before the next one."""
_AGAIN = 2.0
"""Seconds before the next try at a job's end, where the place does not answer."""
_TOLD = 3


def watch(mirror: Mirror, told: int) -> Dict[str, Any]:
    """Keep the checkpoints of a running job until a byte comes through ``told``, and then once more. Blocks."""
    pause = PAUSE
    while not select.select([told], [], [], pause)[0]:
        began = time.monotonic()
        mirror.keep(time.time())
        pause = min(max(PAUSE, _REST * (time.monotonic() - began)), _LONGEST)
    # Nothing to read is the end of the agent, who did not say that the job's processes are gone.
    return settle(mirror) if os.read(told, 1) else {"errors": [], "notes": []}


def settle(mirror: Mirror) -> Dict[str, Any]:
    """Keep everything as it is now, when nobody writes any more; a place that does not answer is waited for."""
    until = time.monotonic() + mirror.patience
    mirror.keep(time.time(), everything=True)
    if mirror.errors:
        mirror.keep(time.time(), everything=True)
    while mirror.is_away() and time.monotonic() < until:
        time.sleep(_AGAIN)
        mirror.keep(time.time(), everything=True)
    return mirror.told()


class Keeper:
    """The checkpoints of one job on this host, by errands; of a job without any, nothing is done."""

    what = "checkpoint"
    """How a sentence about trouble begins."""

    def __init__(self, loop: Loop, store: Optional[Store], folder: str) -> None:
        self._loop = loop
        self._store = store
        self._folder = folder
        self._errand: Optional[forked_task.Errand] = None
        self._again: Optional[Timer] = None
        self._breath = _BREATH
        self._known: Optional[Known] = None
        self._pipe = -1
        self._done: Optional[Callable[[List[str]], None]] = None
        self.notes: List[str] = []

    @property
    def ending(self) -> Optional[forked_task.Errand]:
        """What keeps them for the last time, None where nobody waits for that."""
        return self._errand if self._done is not None else None

    def is_wanted(self) -> bool:
        """Say whether the job has a place for checkpoints."""
        return self._store is not None

    def restore(self) -> Known:
        """Bring the checkpoints here; to be called by an errand.

        :raises CheckpointError: the place cannot be used.
        """
        if self._store is None:
            return {}
        os.makedirs(self._folder, exist_ok=True)
        return self._mirror(self._store).restore()

    def _mirror(self, store: Store) -> Mirror:
        return Mirror(self._folder, store, self._known)

    def begin(self, known: Known) -> None:
        """Keep them from now on; ``known`` is what :meth:`restore` gave."""
        if self._store is None:
            return
        self._known = known
        told, self._pipe = os.pipe()
        forked_task.KEPT.add(told)
        mirror = self._mirror(self._store)
        self._errand = forked_task.Errand(self._loop, lambda: watch(mirror, told), self._watched)
        forked_task.KEPT.discard(told)
        os.close(told)

    def drop(self) -> None:
        """Keep nothing from now on: the folder is about to be emptied, which is no wish of the job's."""
        self._begin_no_more()
        if self._errand is not None:
            self._errand.cancel()

    def _begin_no_more(self) -> None:
        if self._again is not None:
            self._again.cancel()

    def end(self, done: Callable[[List[str]], None]) -> None:
        """Keep them once more, now that the job's processes are gone; ``done`` gets sentences about trouble."""
        self._begin_no_more()
        if self._known is None:
            done([])
            return
        self._done = done
        if self._pipe < 0:
            self._settle()
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b".")

    def _watched(self, result: Optional[Dict[str, Any]], error: str) -> None:
        os.close(self._pipe)
        self._pipe = -1
        if result is not None:
            self._tell(result)
        elif self._errand is not None and self._errand.was_cut:
            # Another one would stand still at the same place, for as long again.
            self._settled(None, error)
        elif self._done is not None:
            self._settle()
        else:
            # A job may run on for a day, and lose its host with all that it saves from now on.
            self._again = self._loop.later(self._breath, self._begin_again)
            self._breath = min(2 * self._breath, _LONGEST)

    def _begin_again(self) -> None:
        if self._known is not None:
            self.begin(self._known)

    def _settle(self) -> None:
        if self._store is None:
            return
        # The errand ended too early: what it had kept is not known, so everything that differs is kept again.
        mirror = self._mirror(self._store)
        self._errand = forked_task.Errand(self._loop, lambda: settle(mirror), self._settled)

    def _settled(self, result: Optional[Dict[str, Any]], error: str) -> None:
        self._tell({"errors": [error], "notes": []} if result is None else result)

    def _tell(self, result: Dict[str, Any]) -> None:
        done, self._done = self._done, None
        errors: List[str] = result["errors"]
        self.notes = [f"{self.what}: {note}" for note in result["notes"]]
        more = f", and {len(errors) - _TOLD} more" if len(errors) > _TOLD else ""
        if done is not None:
            done([f"{self.what}: {'; '.join(errors[:_TOLD])}{more}."] if errors else [])


def of(host: Host, job: str, spec: Dict[str, Any]) -> Keeper:
    """Take the place where the checkpoints of a job are kept, if it has one."""
    place, writer = seen_at(spec["checkpoint"], host.hidden), f"{job}-{host.config.host}"
    store = store_of(place, writer, host.means(spec["environment"]), what=Keeper.what)
    # By the name that this host has for it, also where jobs have another one.
    folder = host.place._replace(base=host.folder.ml).real(checkpoints(spec), "checkpoint_local_path")
    return Keeper(host.loop, store, folder)
