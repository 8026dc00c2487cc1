"""Zygotes without the packages that some jobs must not find preloaded, and the choice of a zygote for a job.

A job that changes a variable which a preloaded package read at its import needs a process without that package. It
comes from a variant, a zygote with all other preloads, or else is a new interpreter. The variant for a job's changes
is created when that job is over, and the one for ranks of torchrun as soon as torch is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.code.environ import reasons as preload_reasons
from jupyter_smx.agent.code.environ.reasons import MissingPreloads
from jupyter_smx.agent.code.imports import top_level_package
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.code.environ.changes import VariableChange
    from jupyter_smx.agent.code.environ.job_changes import JobChanges
    from jupyter_smx.agent.forkserver.handles import ZygoteHandle

_RANKS = tuple(environ_changes.changes_of({}, "", {}, ranks=True))
_LAUNCHER = "torch"


class Choice(NamedTuple):
    """How a job begins: in a child of ``zygote`` (None: the current one), with or without a ``restart`` of Python."""

    missing_preloads: MissingPreloads
    restart: bool = False
    zygote: Optional[ZygoteHandle] = None


UNCHANGED = Choice(MissingPreloads([], []))


def choose(current: ZygoteHandle, variants: Sequence[ZygoteHandle], job_changes: JobChanges) -> Choice:
    """Choose for a job by what it changes of what preloads found."""
    if job_changes.needs_interpreter:
        return Choice(MissingPreloads(list(current.loaded), job_changes.reasons()), restart=True)
    changes = job_changes.variables
    readers = environ_changes.readers(current.reads, changes)
    unseen = environ_changes.unseen(changes, [name for names in readers.values() for name in names])
    notes = [preload_reasons.format_unseen(unseen, current.compiled)] if unseen and current.compiled else []
    if not readers:
        return Choice(MissingPreloads([], notes)) if notes else UNCHANGED
    fit = [one for one in variants if not environ_changes.readers(one.reads, changes)]
    if not fit:
        left_out = modules_without(current, readers)[1]
        said = [*preload_reasons.format_left_out(readers, left_out), preload_reasons.NEW_INTERPRETER]
        return Choice(MissingPreloads(list(current.loaded), said), restart=True)
    best = max(fit, key=lambda one: len(one.loaded))
    absent = [name for name in current.loaded if name not in best.loaded]
    return Choice(MissingPreloads(absent, [*preload_reasons.format_left_out(readers, absent), *notes]), zygote=best)


def modules_without(zygote: ZygoteHandle, readers: Mapping[str, Sequence[str]]) -> Tuple[List[str], List[str]]:
    """Part the preloads of a zygote into those that need none of these packages, and those that do."""
    users = environ_changes.users_of(zygote.reads, readers)
    kept = [name for name in zygote.loaded if top_level_package(name) not in users]
    return kept, [name for name in zygote.loaded if name not in kept]


class Variants:
    """The variants of one host; ``launch`` starts a zygote with modules, or returns None if it cannot."""

    def __init__(self, launch: Callable[[List[str]], Optional[ZygoteHandle]]) -> None:
        self._launch = launch
        self._made: Dict[ZygoteHandle, Tuple[VariableChange, ...]] = {}
        """Variants, and for which changes each was made; the latest stand last."""
        self._missing: Tuple[VariableChange, ...] = ()
        self._on_settled: Optional[Callable[[], None]] = None

    def ready(self) -> List[ZygoteHandle]:
        """Return the variants that can be used; drop those whose packages were replaced."""
        for one in list(self._made):
            if one.ready and one.changed_packages():
                self._drop(one)
        return [one for one in self._made if one.ready]

    def has(self, zygote: ZygoteHandle) -> bool:
        """Return True if a zygote is a variant, ready or not."""
        return zygote in self._made

    def miss(self, changes: Sequence[VariableChange]) -> None:
        """Take note that a job found no process without what reads these changes; :meth:`make_missing` makes one."""
        self._missing = tuple(changes)

    def make_missing(self, current: Optional[ZygoteHandle]) -> None:
        """Make the variant that the last job lacked, if it lacked one."""
        changes, self._missing = self._missing, ()
        if changes and current is not None:
            self._make(current, changes)

    def make_for_ranks(self, current: ZygoteHandle, settled: Callable[[], None]) -> None:
        """Make the variant for ranks, where there is torch and something reads their variables; then call back."""
        if any(top_level_package(name) == _LAUNCHER for name in current.loaded):
            self._on_settled = settled if self._make(current, _RANKS) else None
        if self._on_settled is None:
            settled()

    def _make(self, current: ZygoteHandle, changes: Tuple[VariableChange, ...]) -> bool:
        """Start one; False where none is needed, it is on its way already, or nothing would be left in it."""
        readers = environ_changes.readers(current.reads, changes)
        kept, left_out = modules_without(current, readers)
        if not readers or not kept or not left_out or any(one.modules == kept for one in self._made):
            return False
        others = [one for one, made_for in self._made.items() if made_for != _RANKS or changes == _RANKS]
        for one in others:
            self._drop(one)
        started = self._launch(kept)
        if started is not None:
            self._made[started] = changes
        return started is not None

    def take_ready(self, zygote: ZygoteHandle) -> None:
        """Accept a ready variant; if it still read variables that it should not, create one with fewer modules."""
        changes = self._made[zygote]
        if environ_changes.readers(zygote.reads, changes):
            self._drop(zygote)
            if self._make(zygote, changes):
                return
        self._settle()

    def lose(self, zygote: ZygoteHandle) -> None:
        """Remove a variant that has exited, or cannot be used."""
        if self._made.pop(zygote, None) is not None:
            self._settle()

    def _settle(self) -> None:
        callback, self._on_settled = self._on_settled, None
        if callback is not None:
            callback()

    def discard(self) -> None:
        """Drop all variants; each exits when its current job, if any, is over."""
        self._on_settled = None
        for one in list(self._made):
            self._drop(one)

    def _drop(self, zygote: ZygoteHandle) -> None:
        del self._made[zygote]
        zygote.retire()
