"""Find the modules that a job imported, including modules that the zygote had preloaded.

Python looks at ``__spec__._initializing`` each time that a loaded module is imported again, in every way. The agent
replaces the specs of preloaded modules to record this: in a zygote the dependencies, in a job the requested modules.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from types import ModuleType

STDLIB: FrozenSet[str] = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
_STDLIB_FOLDER = os.path.dirname(os.__file__)
_MACHINERY = ("importlib", "_frozen_importlib", "_frozen_importlib_external", "jupyter_smx", "__main__")
"""Modules that import for others; the main module of a zygote is the agent's start."""
_LOOKS_ALWAYS = (3, 11)
"""Older Pythons look at the spec in import statements, and not in :func:`importlib.import_module`."""
_COMPILED = tuple(EXTENSION_SUFFIXES)
_SITE_FOLDERS = ("site-packages", "dist-packages")
"""Names of the folders that installers fill."""
_PYTHONS_OWN = (_STDLIB_FOLDER, os.path.join(_STDLIB_FOLDER, "lib-dynload"))


class _ImportLog:
    """Imports observed in this process; children of a zygote inherit them and add their own."""

    def __init__(self) -> None:
        self.needs: Dict[str, Set[str]] = {}
        self.asked: Set[str] = set()
        self.noticed: List[ModuleSpec] = []
        self.before: FrozenSet[str] = frozenset(sys.modules)
        self.own: List[str] = []
        """The modules of this package that were loaded when the imports of the zygote were over."""
        self.watched: FrozenSet[str] = frozenset()
        self.hidden: Dict[str, ModuleType] = {}
        self.last: Tuple[str, Optional[ModuleType]] = ("", None)
        """Name and module of what was loaded last then, or when the job began."""
        self.in_zygote = False
        self.begin_module: Callable[[str], None] = lambda _name: None
        self.end_module: Callable[[ModuleType], None] = lambda _module: None
        self.on_asked: Callable[[str], None] = lambda _package: None


_notes = _ImportLog()


class _WatchedSpec(ModuleSpec):
    """The spec of a module that a zygote imported."""

    @property
    def _initializing(self) -> bool:
        if _notes.in_zygote:
            _record_dependency(top_level_package(self.name))
        else:
            package = top_level_package(self.name)
            if package not in _notes.asked:
                _notes.asked.add(package)
                _notes.on_asked(package)
            _notes.noticed.append(self)
            self.__class__ = ModuleSpec  # type: ignore[assignment] # once is enough, and imports in a loop go on at their own speed
        return bool(self.__dict__.get("_initializing"))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value


class _Watcher:
    """Comes before all finders of a zygote and makes their specs watched ones."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        for finder in sys.meta_path:
            if finder is _Watcher or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec) is ModuleSpec and top_level_package(name) not in STDLIB:
                    spec.__class__ = _WatchedSpec
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _WatchedLoader(spec.loader)  # type: ignore[assignment]
                    _record_dependency(top_level_package(name))
                return spec
        return None


class _WatchedLoader:
    """Wraps the loader of a module until the module's code runs, and records when that begins and ends."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # of a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        _notes.begin_module(module.__name__)
        try:
            self._loader.exec_module(module)
        finally:
            _notes.end_module(module)


def _record_dependency(needed: str) -> None:
    frame = sys._getframe(2)  # noqa: SLF001 - only the frame shows which module imports
    while frame is not None:
        importer = top_level_package(str(frame.f_globals.get("__name__", "")))
        if importer not in _MACHINERY:
            if importer != needed:
                _notes.needs.setdefault(importer, set()).add(needed)
            return
        frame = frame.f_back  # type: ignore[assignment]


def top_level_package(name: str) -> str:
    """Return the top-level package of a dotted name."""
    return name.partition(".")[0]


def _watch_import_calls() -> None:
    bootstrap: Any = importlib._bootstrap  # noqa: SLF001 - what import_module calls
    original = bootstrap._gcd_import  # noqa: SLF001

    def gcd_import(name: str, package: Optional[str] = None, level: int = 0) -> Any:
        module = original(name, package, level)
        getattr(getattr(module, "__spec__", None), "_initializing", None)
        return module

    bootstrap._gcd_import = gcd_import  # noqa: SLF001


def _ignore(_name: object) -> None:
    return None


def begin_watching(
    begin_module: Callable[[str], None] = _ignore, end_module: Callable[[ModuleType], None] = _ignore
) -> None:
    """Watch every module that is imported from now on; for a process that imports for jobs to come.

    The functions are called when the code of a module outside Python's library begins, and when it ends.
    """
    _notes.begin_module, _notes.end_module = begin_module, end_module
    if sys.version_info < _LOOKS_ALWAYS:
        _watch_import_calls()
    _notes.in_zygote = True
    sys.meta_path.insert(0, _Watcher)


def end_watching() -> None:
    """Mark all loaded modules as not imported by a job, until a job requests them."""
    with contextlib.suppress(ValueError):  # something that was imported has other finders now
        sys.meta_path.remove(_Watcher)
    _notes.in_zygote = False
    _notes.begin_module = _notes.end_module = _ignore
    _notes.before = frozenset(sys.modules)
    _notes.own = list(filter(_is_own, _notes.before))
    _notes.last = next(reversed(sys.modules.items()))
    _notes.watched = frozenset(filter(_is_watched, map(top_level_package, _notes.before)))


def watched_packages() -> FrozenSet[str]:
    """Name the packages that a zygote imported."""
    return _notes.watched


def begin_job(on_asked: Callable[[str], None] = _ignore) -> None:
    """Start to count imports; call ``on_asked`` with each preloaded package that the job imports."""
    for spec in _notes.noticed:
        spec.__class__ = _WatchedSpec  # our own preparations asked for it
    _notes.noticed.clear()
    _notes.asked.clear()
    _notes.on_asked = on_asked
    _notes.last = next(reversed(sys.modules.items()))


def wrap_asked(wrap: Callable[[Callable[[str], None]], Callable[[str], None]]) -> None:
    """Replace the callback for preloaded packages that the job imports by ``wrap`` of it."""
    _notes.on_asked = wrap(_notes.on_asked)


def hide_agent_modules() -> None:
    """Take this package away from the job's imports: its own jupyter_smx may be another one."""
    _notes.hidden.update(_take_modules([*_notes.own, *_later_names()]))
    _notes.last = next(reversed(sys.modules.items()))


@contextlib.contextmanager
def agent_modules() -> Iterator[None]:
    """Make this package importable inside the ``with`` block, also in a job, where it is hidden.

    The packages bring their own paths, so ``sys.path`` need not have the agent's archive.
    """
    if not _notes.hidden:
        yield
        return
    others = _take_modules(_later_names())
    sys.modules.update(_notes.hidden)
    try:
        yield
    finally:
        _notes.hidden = _take_modules(_later_names())
        sys.modules.update(others)


def _is_own(name: str) -> bool:
    return top_level_package(name) == "jupyter_smx"


def _take_modules(names: Iterable[str]) -> Dict[str, ModuleType]:
    """Remove the modules of a jupyter_smx among ``names`` from the loaded ones, and return them."""
    return {name: sys.modules.pop(name) for name in names if _is_own(name) and name in sys.modules}


def dependencies_of(roots: Iterable[str]) -> Set[str]:
    """Return packages with all their dependencies, as far as a zygote imported them."""
    return _closure(roots, _notes.needs)


def _closure(roots: Iterable[str], steps: Mapping[str, Set[str]]) -> Set[str]:
    found: Set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += steps.get(name, ())
    return found


def dependents_of(roots: Iterable[str]) -> Set[str]:
    """Return packages with all their dependents, as far as a zygote imported them."""
    users: Dict[str, Set[str]] = {}
    for name, needed in _notes.needs.items():
        for one in needed:
            users.setdefault(one, set()).add(name)
    return _closure(roots, users)


def compiled_packages() -> Set[str]:
    """Name the packages that have compiled parts here: most cannot be loaded twice into one process."""
    return {
        top_level_package(name)
        for name, module in list(sys.modules.items())
        if str(getattr(getattr(module, "__spec__", None), "origin", "")).endswith(_COMPILED)
    }


def unload(roots: Set[str]) -> None:
    """Make the next import load packages again, except scripts, which cannot be reloaded."""
    for name in [name for name in sys.modules if top_level_package(name) in roots and name != "__main__"]:
        del sys.modules[name]


def loaded_files() -> Dict[str, Dict[str, str]]:
    """Return the files of modules that are loaded and not Python's own: {folder: {name: top-level package}}."""
    found: Dict[str, Dict[str, str]] = {}
    for name, module in list(sys.modules.items()):
        top = top_level_package(name)
        path = vars(module).get("__file__") if isinstance(module, type(sys)) else None
        if isinstance(path, str) and top not in STDLIB and top not in _MACHINERY:
            folder, file = os.path.split(path)
            found.setdefault(folder, {})[file] = top
    return found


def imports_by_folder() -> Dict[str, List[str]]:
    """Return what this job imported, by folder, without Python's own modules."""
    # A package that was removed and imported again is a different module with possibly other dependencies.
    others = {name for name in _notes.watched - _notes.asked if name in sys.modules and not _is_watched(name)}
    new = {top_level_package(name) for name in _new_names()} - others
    found: Dict[str, List[str]] = {}
    for name in sorted(dependencies_of(new | _notes.asked) | others):
        if name not in STDLIB and name not in ("__main__", "__mp_main__", "jupyter_smx"):
            _put(name, found)
    return found


def _new_names() -> List[str]:
    """Name what was imported since the job began."""
    found = _names_after_last()
    return [name for name in list(sys.modules) if name not in _notes.before] if found is None else found


def _later_names() -> List[str]:
    """Name at least what was imported after :attr:`_ImportLog.last`."""
    found = _names_after_last()
    return list(sys.modules) if found is None else found


def _names_after_last() -> Optional[List[str]]:
    """Name what stands after :attr:`_ImportLog.last`, as new names do; None if that is gone, or a thread imports now.

    A module that was removed and imported again stands after new ones, so it does not count as that one. In a forked
    process, reading all names would copy their memory pages.
    """
    found: List[str] = []
    last, module = _notes.last
    with contextlib.suppress(RuntimeError):
        for name in reversed(sys.modules):
            if name == last:
                return found if sys.modules.get(name) is module else None
            found.append(name)
    return None


def modules_below(folder: str) -> List[ModuleType]:
    """Return the modules that this job imported from below a folder, the last one first."""
    found = [sys.modules.get(name) for name in _new_names() if name != "__main__"]
    return [one for one in found if one is not None and str(getattr(one, "__file__", "")).startswith(folder + os.sep)]


def _is_watched(name: str) -> bool:
    return type(getattr(sys.modules.get(name), "__spec__", None)) is _WatchedSpec


def _put(name: str, found: Dict[str, List[str]]) -> None:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    folder = folder_of(name, spec)
    if folder:
        place, full_name = _installed_name(folder, name)
        found.setdefault(place, []).append(full_name)
    elif getattr(spec, "origin", None) is None and getattr(spec, "submodule_search_locations", None) is not None:
        # A namespace package has no folder of its own; its modules may come from several.
        depth = name.count(".") + 1
        inside = [one for one in list(sys.modules) if one.startswith(name + ".") and one.count(".") == depth]
        for one in sorted(inside):
            _put(one, found)


def _installed_name(folder: str, name: str) -> Tuple[str, str]:
    """Return the folder of an installer, and the dotted name there, of a module that lies deeper inside one.

    A compiled part of a package may be loaded under its last name alone, as ``_ni_label`` of ``scipy.ndimage``, and a
    package may have folders of its own on the path. An egg is a folder of its own for each distribution.
    """
    parts = folder.split(os.sep)
    depth = max((depth for depth, part in enumerate(parts, 1) if part in _SITE_FOLDERS), default=0)
    inside = parts[depth:]
    if not depth or not inside or any(part.endswith(".egg") for part in inside):
        return folder, name
    return os.sep.join(parts[:depth]), ".".join([*inside, name])


def folder_of(name: str, spec: Any) -> str:
    """Return the folder that a module was found in.

    '' for a namespace, a built-in module, Python's own, and what the agent brings in its archive.
    """
    origin = getattr(spec, "origin", None)
    if not isinstance(origin, str) or not os.path.isabs(origin):
        return ""
    folder = os.path.dirname(origin)
    for _ in range(name.count(".") + (spec.submodule_search_locations is not None)):
        folder = os.path.dirname(folder)
    is_own = folder in _PYTHONS_OWN or folder.startswith(process.entry() + os.sep)
    return "" if is_own else folder


def is_user_module(name: str) -> bool:
    """Return True if a module comes from the user's own files, which may differ in the next job."""
    try:
        spec = importlib.util.find_spec(top_level_package(name))
    except (ImportError, ValueError):
        return False  # there is none, or the search failed; the import reports that
    folder = folder_of(top_level_package(name), spec)
    return bool(folder) and not _is_installed(folder)


def _is_installed(folder: str) -> bool:
    """Return True if an installer fills a folder; a project in development has metadata of another kind beside it."""
    if os.path.basename(folder) in _SITE_FOLDERS:
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False
