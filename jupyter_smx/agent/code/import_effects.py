"""Undo what imports of a zygote changed for the whole process, and do it again when a job imports the package.

A warning filter, a variable or an option of pandas that a package sets at its import would else hold in each job of the
zygote, also in one that never imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Set

from jupyter_smx.agent.code import imports
from jupyter_smx.agent.system.interpreter import numexpr_threads
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_smx.agent.system.interpreter.global_settings import Setting, Values

_MISSING = object()


class _Change(NamedTuple):
    """A change of one setting by the import of a package."""

    package: str
    setting: Setting
    before: Values
    after: Values


class ImportEffects:
    """Attributes changes of settings to the packages whose code made them."""

    def __init__(self, settings: List[Setting]) -> None:
        self._settings = settings
        self._now = [setting.read() for setting in settings]
        self._fresh = list(self._now)
        self._changes: List[_Change] = []
        self._packages: List[str] = []
        self._actions: Dict[str, Callable[[], None]] = {}
        self._affected: Dict[str, Set[str]] = {}
        self._done: Set[str] = set()

    def begin_module(self, name: str) -> None:
        """Record that the code of a module begins; imports may be nested."""
        package = imports.top_level_package(name)
        if not self._packages or self._packages[-1] != package:
            self._compare()
        self._packages.append(package)

    def end_module(self, module: ModuleType) -> None:
        """Take note that the code of a module is over."""
        package = self._packages[-1]
        if module.__name__ == numexpr_threads.MODULE:
            numexpr_threads.hold(module)
            self._actions[package] = numexpr_threads.start
        if self._packages[-2:-1] != [package]:
            self._compare()
        self._packages.pop()

    def undo(self) -> None:
        """Reset every setting to its value without the imports; changes by a setting's owner stay.

        Call it when all imports are finished.
        """
        self._compare()
        for setting, now, fresh in zip(self._settings, self._now, self._fresh):
            if fresh is not None and not _is_same(now, fresh):
                setting.write(fresh)
        changing = {change.package for change in self._changes} | self._actions.keys()
        for package in imports.watched_packages() if changing else ():
            self._affected[package] = imports.dependencies_of([package]) & changing

    def redo(self, package: str) -> None:
        """Do again what the imports of a package, and of those that it needs, did to settings; once."""
        new = self._affected.get(package, set()) - self._done
        if not new:
            return
        self._done |= new
        for change in self._changes:
            now = change.setting.read() if change.package in new else None
            if now is not None:
                change.setting.write(_merge(now, change))
        for name in new & self._actions.keys():
            self._actions[name]()

    def _compare(self) -> None:
        """Take what has changed since the last call as the doing of the package whose code runs."""
        package = self._packages[-1] if self._packages else ""
        for number, setting in enumerate(self._settings):
            before, now = self._now[number], setting.read()
            if _is_same(before, now):
                continue
            self._now[number] = now
            change = _Change(package, setting, before, now)
            if before is None or self._fresh[number] is None:
                self._fresh[number] = now
            elif package == setting.owner:
                self._fresh[number] = _merge(self._fresh[number], change)
            else:
                self._changes.append(change)


_effects: List[ImportEffects] = []
"""Effects of this process, if it preloads modules."""


def begin_watching() -> None:
    """Watch imports and what they do to settings; for a process that imports for jobs to come."""
    # A zygote without preloads need not carry these.
    from jupyter_smx.agent.system.interpreter.global_settings import python_settings  # noqa: PLC0415
    from jupyter_smx.agent.system.interpreter.library_settings import library_settings  # noqa: PLC0415

    _effects[:] = [ImportEffects(python_settings() + library_settings())]
    imports.begin_watching(_effects[0].begin_module, _effects[0].end_module)


def end_watching() -> None:
    """Mark all loaded modules as not imported by a job, and undo their effects on settings."""
    imports.end_watching()
    for one in _effects:
        one.undo()


def begin_job() -> None:
    """Count from here what the job imports, and let it have its effects on settings."""
    imports.begin_job(*(one.redo for one in _effects))


def _is_same(one: Any, other: Any) -> bool:
    """Compare values; they may be of the types of any library."""
    try:
        return one is other or bool(one == other)
    except (ValueError, TypeError, RuntimeError):
        return False


def _merge(now: Values, change: _Change) -> Values:
    """Make the same change to other values."""
    if isinstance(now, dict):
        return _merge_entries(now, change)
    before, after = change.before, change.after
    head = next((index for index, item in enumerate(after) if item in before), len(after))
    first = after[:head] if before else []
    last = [item for item in after[len(first) :] if item not in before]
    gone = [item for item in before if item not in after]
    return first + [item for item in now if item not in gone and item not in first and item not in last] + last


def _merge_entries(now: Values, change: _Change) -> Values:
    merged = dict(now)
    for name in {**change.before, **change.after}:
        before, after = change.before.get(name, _MISSING), change.after.get(name, _MISSING)
        if _is_same(before, after):
            continue
        if change.setting.is_default and not _is_same(now.get(name, _MISSING), before):
            continue
        if after is _MISSING:
            merged.pop(name, None)
        else:
            merged[name] = after
    return merged
