"""Modules that a host preloads for later jobs: imported, failed, and requested meanwhile."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Set

from jupyter_smx.agent.code import imports
from jupyter_smx.agent.code.environ import reads as environ_reads

if TYPE_CHECKING:
    from jupyter_smx.agent.forkserver import fork_safety


class Preload:
    """Modules that the zygote imported, failed ones with reasons, and those that are being tried."""

    def __init__(self) -> None:
        self.loaded: List[str] = []
        self.failed: Dict[str, str] = {}
        self.pending: List[str] = []
        self.costs: Dict[str, Dict[str, Any]] = {}
        self._present: Set[str] = set()
        self._queued: List[str] = []

    def view(self) -> Dict[str, Any]:
        """Return the value as it is sent to the controller."""
        return {"loaded": self.loaded, "failed": self.failed, "pending": self.pending, "costs": self.costs}

    def record_result(self, report: Mapping[str, Any]) -> None:
        """Take note of what a zygote has that took over; see :func:`report`."""
        self.loaded = report["loaded"]
        self.failed.update(report["failed"])
        self.costs = report["costs"]
        self.pending = []
        self._present = set(report["present"])

    def fail_pending(self, why: str) -> None:
        """Mark all pending modules as failed, unless they have a reason already."""
        self.failed = {**dict.fromkeys(self.pending, why), **self.failed}
        self.pending = []

    def missing_modules(self, modules: List[str]) -> List[str]:
        """Return the modules that need a new zygote, without those that came with other imports."""
        there = {*self.loaded, *self.pending, *self._present}
        return [name for name in dict.fromkeys(modules) if name not in there]

    def queue(self, modules: List[str]) -> None:
        """Keep in mind what was asked for while something else is being tried."""
        self._queued += modules

    def take_queued(self) -> List[str]:
        """Return the queued modules, and clear the queue."""
        queued, self._queued = self._queued, []
        return queued


def report(imported: fork_safety.ImportResult) -> Dict[str, Any]:
    """Return what a process has preloaded; ``present`` is every module in it that is not Python's own.

    ``files`` are those of these modules, as :func:`imports.loaded_files` gives them.
    """
    present = sorted(name for name in list(sys.modules) if imports.top_level_package(name) not in imports.STDLIB)
    tops = {imports.top_level_package(name) for name in imported.loaded}
    return {
        "loaded": imported.loaded,
        "failed": imported.failed,
        "costs": imported.costs,
        "present": present,
        "files": imports.loaded_files(),
        "reads": environ_reads.as_rows(environ_reads.reads()),
        "compiled": sorted(imports.compiled_packages() & tops),
    }
