"""Import the agent's modules from their archive: Python's own importer reads and decodes each of them twice.

An interpreter of another version finds no bytecode of its own there, and imports by Python's own importer.
"""

from __future__ import annotations

import marshal
import sys
import zipimport
from _frozen_importlib import ModuleSpec  # as this runs first of all: `importlib.util` takes ten times as long to load
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False  # see agent/forkserver/spawn
if TYPE_CHECKING:
    from types import ModuleType
    from typing import FrozenSet, Optional

INDEX = "bytecode-index"
"""Name of the archive's list of modules with bytecode, after the number of the version that reads it."""
_LOADED = ("jupyter_smx", "jupyter_smx.agent", "jupyter_smx.agent.system")
"""Packages that Python's own importer loads before this one can."""
_HEADER = 16
"""Bytes of a file of bytecode before its code (PEP 552)."""


class ArchiveImporter(zipimport.zipimporter):
    """Finds and loads the modules of one folder of the archive, all of which have bytecode for this interpreter."""

    modules: FrozenSet[str] = frozenset()
    """Paths of the modules in the archive, without suffix; those of packages end with a slash."""

    def find_spec(self, fullname: str, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        """Find a module or a package of this folder; None if it has no such module."""
        del target
        path = self.prefix + fullname.rpartition(".")[2]
        if path in self.modules:
            return _spec(fullname, self, path + ".py")
        if path + "/" not in self.modules:
            return None
        spec = _spec(fullname, self, path + "/__init__.py")
        folder = self.archive + "/" + path
        spec.submodule_search_locations = [folder]
        _register(folder)
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of a module."""
        spec = module.__spec__
        assert spec is not None  # noqa: S101 - that of find_spec
        found = memoryview(self.get_data(spec.loader_state))
        exec(marshal.loads(found[_HEADER:]), module.__dict__)  # noqa: S102, S302 - our own archive

    def invalidate_caches(self) -> None:
        """Keep all, because an archive never changes. Python's own importer would read its directory again."""


def _spec(name: str, loader: ArchiveImporter, path: str) -> ModuleSpec:
    origin = loader.archive + "/" + path
    spec = ModuleSpec(name, loader, origin=origin)  # type: ignore[arg-type]  # a loader by its methods, in all versions
    spec.has_location = True
    spec.cached = origin + "c"
    spec.loader_state = path + "c"
    return spec


def _register(folder: str) -> None:
    sys.path_importer_cache[folder] = ArchiveImporter(folder)


def install(loader: zipimport.zipimporter) -> None:
    """Import all further modules of the archive by this importer, if their bytecode is for this interpreter.

    ``loader`` is Python's own importer, which loaded this module.
    """
    try:
        index = loader.get_data(INDEX)
    except OSError:
        return
    if not index.startswith(MAGIC_NUMBER):
        return
    ArchiveImporter.modules = frozenset(index[len(MAGIC_NUMBER) :].decode().split())
    for name in _LOADED:
        for folder in sys.modules[name].__path__:
            _register(folder)
