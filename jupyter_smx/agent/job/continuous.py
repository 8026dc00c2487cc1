"""Copy outputs to their destination while the job runs, as SageMaker's ``Continuous`` mode does.

Unlike checkpoints they are never fetched and never deleted there, and links are not followed. At the end of the job
all of it is uploaded once more, so that the destination is complete.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from jupyter_smx.agent.channels import checkpoint
from jupyter_smx.agent.channels.object_store import open_store
from jupyter_smx.agent.contract import training_toolkit
from jupyter_smx.agent.job import mirror_task
from jupyter_smx.agent.paths import visible_path
from jupyter_smx.agent.stores import scan

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.system.processes.event_loop import Loop
    from jupyter_smx.agent.system.processes.forked_task import ForkedTask

MODE = "Continuous"
_INTERMEDIATE = "intermediate"
"""Name in messages. A training job has no other Continuous outputs, so the name is unique."""


class _OutputMirror(checkpoint.Mirror):
    """An output's folder and where it goes."""

    propagates_deletes = False

    def __init__(self, folder: str, store: checkpoint.CheckpointStore, ml: str) -> None:
        super().__init__(folder, store, {})
        self._output = folder
        self._ml = os.path.realpath(ml)
        self._unswept_store: Optional[checkpoint.CheckpointStore] = store

    def sync(self, now: float, *, everything: bool = False) -> None:
        """Keep new files; the first call also removes leftovers of killed writers, which no other code does."""
        aside, self._unswept_store = self._unswept_store, None
        if aside is not None:
            with contextlib.suppress(OSError):
                aside.remove_partial_files()
        super().sync(now, everything=everything)

    def _scan_folder(self) -> scan.FolderScan:
        # The job may have replaced its folder by a link; files behind that are not the job's.
        if not os.path.realpath(self._output).startswith(self._ml + os.sep):
            return scan.FolderScan({}, [], is_whole=False)
        return scan.scan_folder(self._output, follow=False)


class _OutputMirrorTask(mirror_task.MirrorTask):
    """One output on this host."""

    def __init__(
        self, loop: Loop, store: Optional[checkpoint.CheckpointStore], folder: str, *, name: str, ml: str
    ) -> None:
        super().__init__(loop, store, folder)
        self.what = f"output {name}"
        self._ml = ml

    def _mirror(self, store: checkpoint.CheckpointStore) -> _OutputMirror:
        return _OutputMirror(self._folder, store, self._ml)


class ContinuousOutputs:
    """All such outputs of a job on this host, one after the other at their end."""

    def __init__(self, keepers: List[_OutputMirrorTask]) -> None:
        self._tasks = keepers
        self._unfinished: List[_OutputMirrorTask] = []
        self._errors: List[str] = []

    @property
    def notes(self) -> List[str]:
        """Notes about the outputs, besides errors."""
        return [note for one in self._tasks for note in one.notes]

    @property
    def final_task(self) -> Optional[ForkedTask]:
        """The task that keeps one of them for the last time; None if no caller waits for that."""
        return next(filter(None, (one.final_task for one in self._tasks)), None)

    def start(self) -> None:
        """Upload files from now on."""
        for one in self._tasks:
            one.start({})
        self._unfinished = list(self._tasks)

    def finish(self, done: Callable[[List[str]], None]) -> None:
        """Upload everything once more, now that the job's processes are gone; ``done`` gets error messages."""
        if not self._unfinished:
            done(self._errors)
            return

        def ended(errors: List[str]) -> None:
            self._errors += errors
            self.finish(done)

        self._unfinished.pop(0).finish(ended)


def continuous_outputs(host: Host, job: str, spec: CompleteSpec, outputs: List[Tuple[str, str]]) -> ContinuousOutputs:
    """Take the outputs of a job that go somewhere while it runs."""
    places = {one["name"]: one.get("destination") for one in spec["outputs"] if one.get("mode") == MODE}
    ml, writer, options = host.folder.ml, f"{job}-{host.config.host}", host.worker_options(spec["environment"])

    def store(name: str) -> Optional[checkpoint.CheckpointStore]:
        place = visible_path(places[name], host.hidden)
        return open_store(place, f"{writer}-{name}", options, what=f"output {name}", is_ours=False)

    there = [(name, folder) for name, folder in outputs if places.get(name)]
    if training_toolkit.intermediate_destination(spec):
        places[_INTERMEDIATE] = training_toolkit.intermediate_destination(spec)
        there.append((_INTERMEDIATE, os.path.join(ml, training_toolkit.INTERMEDIATE_FOLDER)))
    return ContinuousOutputs(
        [_OutputMirrorTask(host.loop, store(name), folder, name=name, ml=ml) for name, folder in there]
    )
