"""Outputs whose files appear where they go while the job runs: what SageMaker calls ``Continuous``.

Unlike checkpoints they are never fetched and never deleted there, and links are not followed. What is brought home at
the end of the job is the same once more, so that whatever was missed is there then.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent.channels import checkpoint
from jupyter_smx.agent.channels.object_store import store_of
from jupyter_smx.agent.contract import intermediate
from jupyter_smx.agent.job import mirror_task
from jupyter_smx.agent.paths import seen_at
from jupyter_smx.agent.stores import scan

if TYPE_CHECKING:
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.system.processes.event_loop import Loop
    from jupyter_smx.agent.system.processes.forked_task import Errand

MODE = "Continuous"
_INTERMEDIATE = "intermediate"
"""What it is called in sentences; a training job has no Continuous outputs besides, so no other one is called so."""


class _Mirror(checkpoint.Mirror):
    """An output's folder and where it goes."""

    forgets = False

    def __init__(self, folder: str, store: checkpoint.Store, ml: str) -> None:
        super().__init__(folder, store, {})
        self._output = folder
        self._ml = os.path.realpath(ml)
        self._aside: Optional[checkpoint.Store] = store

    def keep(self, now: float, *, everything: bool = False) -> None:
        """Keep what is new; before that, once, tidy up after who was killed here: nobody else lists the place."""
        aside, self._aside = self._aside, None
        if aside is not None:
            with contextlib.suppress(OSError):
                aside.sweep()
        super().keep(now, everything=everything)

    def _look(self) -> scan.Look:
        # The job may have put a link in the place of its folder: what that leads to is not the job's.
        if not os.path.realpath(self._output).startswith(self._ml + os.sep):
            return scan.Look({}, [], is_whole=False)
        return scan.look(self._output, follow=False)


class _Keeper(mirror_task.Keeper):
    """One output on this host."""

    def __init__(self, loop: Loop, store: Optional[checkpoint.Store], folder: str, *, name: str, ml: str) -> None:
        super().__init__(loop, store, folder)
        self.what = f"output {name}"
        self._ml = ml

    def _mirror(self, store: checkpoint.Store) -> _Mirror:
        return _Mirror(self._folder, store, self._ml)


class Continuous:
    """All such outputs of a job on this host, one after the other at their end."""

    def __init__(self, keepers: List[_Keeper]) -> None:
        self._keepers = keepers
        self._left: List[_Keeper] = []
        self._errors: List[str] = []

    @property
    def notes(self) -> List[str]:
        """What is to be said of them besides trouble."""
        return [note for one in self._keepers for note in one.notes]

    @property
    def ending(self) -> Optional[Errand]:
        """What brings one of them for the last time, None where nobody waits for that."""
        return next(filter(None, (one.ending for one in self._keepers)), None)

    def begin(self) -> None:
        """Bring files where they go from now on."""
        for one in self._keepers:
            one.begin({})
        self._left = list(self._keepers)

    def end(self, done: Callable[[List[str]], None]) -> None:
        """Bring everything once more, now that the job's processes are gone; ``done`` gets sentences about trouble."""
        if not self._left:
            done(self._errors)
            return

        def ended(errors: List[str]) -> None:
            self._errors += errors
            self.end(done)

        self._left.pop(0).end(ended)


def of(host: Host, job: str, spec: Dict[str, Any], outputs: List[Tuple[str, str]]) -> Continuous:
    """Take the outputs of a job that go somewhere while it runs."""
    places = {one["name"]: one.get("destination") for one in spec["outputs"] if one.get("mode") == MODE}
    ml, writer, means = host.folder.ml, f"{job}-{host.config.host}", host.means(spec["environment"])

    def store(name: str) -> Optional[checkpoint.Store]:
        place = seen_at(places[name], host.hidden)
        return store_of(place, f"{writer}-{name}", means, what=f"output {name}", is_ours=False)

    there = [(name, folder) for name, folder in outputs if places.get(name)]
    if intermediate.destination(spec):
        places[_INTERMEDIATE] = intermediate.destination(spec)
        there.append((_INTERMEDIATE, os.path.join(ml, intermediate.FOLDER)))
    return Continuous([_Keeper(host.loop, store(name), folder, name=name, ml=ml) for name, folder in there])
