"""What a host has imported for jobs to come, what it could not, and what it was asked for meanwhile."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Set


class Preload:
    """What the zygote has imported, what it could not import and why, and what is being tried."""

    def __init__(self) -> None:
        self.loaded: List[str] = []
        self.failed: Dict[str, str] = {}
        self.pending: List[str] = []
        self._present: Set[str] = set()
        self._wished: List[str] = []

    def view(self) -> Dict[str, Any]:
        """Give it as it travels."""
        return {"loaded": self.loaded, "failed": self.failed, "pending": self.pending}

    def settle(self, loaded: List[str], failed: Dict[str, str], present: List[str]) -> None:
        """Take note of what a zygote has that took over; ``present`` are all modules in it."""
        self.loaded = loaded
        self.failed.update(failed)
        self.pending = []
        self._present = set(present)

    def missing(self, modules: List[str]) -> List[str]:
        """Choose what a new zygote would be worth: what came with something else is there already."""
        there = {*self.loaded, *self.pending, *self._present}
        return [name for name in dict.fromkeys(modules) if name not in there]

    def wish(self, modules: List[str]) -> None:
        """Keep in mind what was asked for while something else is being tried."""
        self._wished += modules

    def wishes(self) -> List[str]:
        """Give what was asked for meanwhile, once."""
        wished, self._wished = self._wished, []
        return wished


def present() -> List[str]:
    """Name every module in this process that is not Python's own."""
    ours = set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
    return sorted(name for name in list(sys.modules) if name.partition(".")[0] not in ours)
