"""Map modules to installed distributions; each folder is read once, and again if it changed."""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple

from jupyter_smx.agent.code import imports
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes.forked_task import ForkedTask

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer

PATIENCE = 20.0
"""Seconds that the record of a job waits for this at most."""
_CODE = (".py", ".so", ".pyd", ".pyc")
_ENTRIES = 5_000
_BYTES = 64 * 1024 * 1024
"""Above these a package of the user's own is named but not hashed."""

FolderIndex = Dict[str, Any]
"""Index of one folder: ``stamp`` (its time in nanoseconds), ``modules`` {dotted name: [distribution, …]},
``versions`` {distribution: version} and ``direct`` {distribution: URL that it was installed from}."""


class PackageReport(NamedTuple):
    """Imports of a job: distributions with versions, modules without a distribution, top-level names of the former."""

    packages: Dict[str, str]
    own: List[Dict[str, str]]
    installed: List[str]
    notes: List[str]


NO_PACKAGES = PackageReport({}, [], [], [])


def _stamp(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _module(path: str) -> str:
    """Return the dotted name of a file of code, '' for another file."""
    if not path.endswith(_CODE) or path.startswith(("..", "/")) or "__pycache__" in path:
        return ""
    folders, _, name = path.rpartition("/")
    parts = folders.split("/") if folders else []
    stem = name.partition(".")[0]
    if stem != "__init__":
        parts.append(stem)
    return ".".join(parts)


def _top_level_names(paths: List[str]) -> Set[str]:
    """Return the packages and modules of a distribution that lie in none of its packages."""
    packages = {_module(path) for path in paths if path.rpartition("/")[2].startswith("__init__.")}
    found = set()
    for name in {_module(path) for path in paths} - {""}:
        above = name.split(".")
        if not any(".".join(above[:depth]) in packages for depth in range(1, len(above))):
            found.add(name)
    return found


def _names(dist: Distribution) -> Set[str]:
    record = dist.read_text("RECORD")
    if record is not None:
        return _top_level_names([line.partition(",")[0].strip('"') for line in record.splitlines()])
    return set((dist.read_text("top_level.txt") or "").split())


def _head(dist: Distribution) -> Tuple[str, str]:
    """Read name and version from the top of the metadata, without the rest, which may be a whole book."""
    found = {}
    for line in (dist.read_text("METADATA") or dist.read_text("PKG-INFO") or dist.read_text("") or "").splitlines():
        field, _, value = line.partition(":")
        if field in ("Name", "Version"):
            found[field] = value.strip()
        if not line or len(found) > 1:
            break
    return found.get("Name", ""), found.get("Version", "")


def _direct(dist: Distribution) -> str:
    try:
        said = json.loads(dist.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    commit = said.get("vcs_info", {}).get("commit_id", "")
    return str(said.get("url", "")) + (f"@{commit}" if commit else "")


def _may_hold_metadata(folder: str) -> bool:
    """Return True if a folder may have metadata of distributions. A job's code has none, and its end must not wait."""
    try:
        names = [name.lower() for name in os.listdir(folder)]
    except NotADirectoryError:
        return True  # an archive, which only Python's own reader opens
    except OSError:
        return False
    return any(name.endswith((".dist-info", ".egg-info")) or name == "egg-info" for name in names)


def read_folder(folder: str) -> FolderIndex:
    """Read what is installed in a folder; slow, tens of milliseconds for a hundred distributions."""
    shelf: FolderIndex = {"stamp": _stamp(folder), "modules": {}, "versions": {}, "direct": {}}
    if not _may_hold_metadata(folder):
        return shelf
    from importlib import metadata  # noqa: PLC0415 - an errand pays for it, the agent need not carry it

    for dist in metadata.distributions(path=[folder]):
        name, version = _head(dist)
        if not name or name in shelf["versions"]:
            continue
        shelf["versions"][name] = version
        direct = _direct(dist)
        if direct:
            shelf["direct"][name] = direct
        for module in _names(dist):
            shelf["modules"].setdefault(module, []).append(name)
    return shelf


def _code_files(folder: str) -> Optional[List[str]]:
    found: List[str] = []
    size = seen = 0
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        chosen = [os.path.join(top, name) for name in sorted(names) if name.endswith(".py")]
        size += sum(os.path.getsize(path) for path in chosen)
        seen += len(names) + len(folders)
        found += chosen
        if seen > _ENTRIES or size > _BYTES:
            return None
    return found


def _module_file(base: str) -> str:
    """Return the file of a module, which may be a compiled one; the last one is that of the source, there or not."""
    files = [base + suffix for suffix in EXTENSION_SUFFIXES]
    return next(filter(os.path.isfile, files), base + ".py")


def _describe_user_module(folder: str, name: str) -> Dict[str, str]:
    """Describe a module of the user's: its place, and a hash of its file or of the Python files of its folder."""
    base = os.path.join(folder, *name.split("."))
    path = base if os.path.isdir(base) else _module_file(base)
    described = {"name": name, "path": path, "sha256": ""}
    try:
        if path != base:
            described["sha256"] = digest.hash_path(path)
            return described
        files = _code_files(path)
        if files is not None:
            import hashlib  # noqa: PLC0415 - few jobs pay for it, no start of a host

            rows = "".join(f"{digest.hash_path(one)}  {os.path.relpath(one, path)}\n" for one in files)
            described["sha256"] = hashlib.sha256(rows.encode(errors="surrogateescape")).hexdigest()
    except OSError:
        pass  # it is listed all the same; a file that cannot be read any more has no hash
    return described


def _find_distributions(shelf: FolderIndex, name: str) -> List[str]:
    """Return the distributions that have a module, or that part of it which was imported from a namespace."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        found = shelf["modules"].get(".".join(parts[:depth]))
        if found:
            return list(found)
    return []


def resolve(imported: Dict[str, List[str]], shelves: Dict[str, FolderIndex]) -> PackageReport:
    """Part what was imported into distributions and the user's own modules, which get no hash here."""
    found = PackageReport({}, [], [], [])
    for folder in sorted(imported):
        shelf = shelves[folder]
        for name in imported[folder]:
            distributions = _find_distributions(shelf, name)
            if not distributions:
                found.own.append({"folder": folder, "name": name})
                continue
            if imports.top_level_package(name) not in found.installed:
                found.installed.append(imports.top_level_package(name))
            found.packages.update((one, shelf["versions"][one]) for one in distributions)
        found.notes.extend(
            f"{one} {shelf['versions'][one]} was installed from {url}."
            for one, url in sorted(shelf["direct"].items())
            if one in found.packages
        )
    return found


def site_folders() -> List[str]:
    """Return the folders that installers fill for this interpreter."""
    return [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]


def _metadata_in(folder: str) -> FrozenSet[Tuple[str, int, int]]:
    """Return names, inodes and times of metadata: a new installation of the same version changes them."""
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info"))]
        found = [(entry.name, entry.stat()) for entry in entries]
    except OSError:
        return frozenset()
    return frozenset((name, stat.st_ino, stat.st_mtime_ns) for name, stat in found)


class InstallSnapshot:
    """The installed packages at one moment; comparing with the current state takes microseconds."""

    def __init__(self) -> None:
        self._stamps = {folder: (_stamp(folder), _metadata_in(folder)) for folder in site_folders()}

    def changed(self) -> List[str]:
        """Return the distributions that were added, removed or reinstalled since, whatever their version is."""
        found: Set[str] = set()
        for folder, (stamp, metadata) in list(self._stamps.items()):
            now = _stamp(folder)
            if now != stamp:
                differing = _metadata_in(folder) ^ metadata
                found.update(name.partition("-")[0] for name, _inode, _time in differing)
                if not differing:
                    self._stamps[folder] = (now, metadata)
        return sorted(found)


class PackageIndex:
    """Index of the installed packages, as far as jobs needed it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._indexes: Dict[str, FolderIndex] = {}

    def read_ahead(self) -> None:
        """Read the folders that most modules come from, so that the first job need not wait for it."""
        old = [folder for folder in site_folders() if self._is_old(folder)]
        if old:
            ForkedTask(self._loop, lambda: {"shelves": {one: read_folder(one) for one in old}, "own": []}, self._take)

    def _is_old(self, folder: str) -> bool:
        return folder not in self._indexes or self._indexes[folder]["stamp"] != _stamp(folder)

    def _take(self, result: Optional[Dict[str, Any]], _error: str) -> None:
        if result is not None:
            self.update(result["shelves"])

    def update(self, fresh: Dict[str, FolderIndex]) -> None:
        """Keep what was read, but not folders that were deleted: some jobs have a folder of their own each."""
        self._indexes.update(fresh)
        for folder in [folder for folder in self._indexes if not _stamp(folder)]:
            del self._indexes[folder]

    def find(self, imported: Dict[str, List[str]], done: Callable[[PackageReport], None]) -> None:
        """Find the distributions of modules; calls ``done`` at once, or after a task has read missing ones."""
        old = [folder for folder in imported if self._is_old(folder)]
        found = None if old else resolve(imported, self._indexes)
        if found is not None and not found.own:
            done(found)
            return
        known = {folder: self._indexes[folder] for folder in imported if folder not in old}
        _Search(self, self._loop, imported, known, done).begin()


class _Search:
    """One search of the disk for one job; calls back once, in time.

    ``known`` are the indexes that need no update. They are copies, because the owner may remove folders meanwhile.
    """

    def __init__(
        self,
        packages: PackageIndex,
        loop: Loop,
        imported: Dict[str, List[str]],
        known: Dict[str, FolderIndex],
        done: Callable[[PackageReport], None],
    ) -> None:
        self._packages = packages
        self._loop = loop
        self._imported = imported
        self._indexes = known
        self._done = done
        self._patience: Optional[Timer] = None

    def begin(self) -> None:
        task = ForkedTask(self._loop, self._work, self._finish)
        self._patience = self._loop.later(PATIENCE, lambda: self._on_timeout(task))

    def _work(self) -> Dict[str, Any]:
        fresh = {folder: read_folder(folder) for folder in self._imported if folder not in self._indexes}
        found = resolve(self._imported, dict(self._indexes, **fresh))
        return {"shelves": fresh, "own": [_describe_user_module(one["folder"], one["name"]) for one in found.own]}

    def _on_timeout(self, task: ForkedTask) -> None:
        task.cancel()
        self._finish(None, f"it took more than {PATIENCE:g} s")

    def _finish(self, result: Optional[Dict[str, Any]], error: str) -> None:
        if self._patience is not None:
            self._patience.cancel()  # else it would hold all this for as long as it waits
        if result is None:
            names = sorted(
                {imports.top_level_package(name) for folder in self._imported for name in self._imported[folder]}
            )
            self._done(PackageReport({}, [], [], [f"Versions of {', '.join(names)} are unknown: {error}."]))
            return
        self._packages.update(result["shelves"])
        found = resolve(self._imported, dict(self._indexes, **result["shelves"]))
        self._done(found._replace(own=result["own"]))
