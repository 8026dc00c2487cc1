"""Control groups of Linux that limit the jobs of a host to the CPU and memory of its instance type.

They are made under the group that this process is in (version 1), or under that one or the one above it where it
hands its controllers on or was given to us to do so (version 2), so that a limit that was set for this process still
holds for its jobs.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Dict

from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROOT = Path("/")
_PREFIX = "jupyter-smx"
_PERIOD = 100_000
"""Microseconds in which a quota of CPU time is counted."""
_PATIENCE = 1.0
_PAUSE = 0.005
CONTROLLERS = ("cpu", "memory")
_LIMITS = (
    "cpu.max",
    "cpuset.cpus",
    "cpuset.mems",
    "io.max",
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "pids.max",
)
"""Limit files of a cgroup v2 group; empty or "max" means no limit."""
_SUBTREE_CONTROL = "cgroup.subtree_control"
_UNITS = (".service", ".scope")
_ANY_UNITS = (*_UNITS, ".slice")


class ParentGroups(NamedTuple):
    """The folder under which a group can be made, for ``cpu`` and ``memory``, and why there is none for the others."""

    version: int = 0
    folders: Dict[str, Path] = {}  # noqa: RUF012 - read only
    reason: str = ""

    def description(self) -> str:
        """Return a sentence for people about the limits of jobs here."""
        if not self.folders:
            return f"none: {self.reason}"
        kinds = " and ".join(kind if kind == "memory" else "CPU" for kind in self.folders)
        return f"{kinds}, by control groups version {self.version}" + (f" ({self.reason})" if self.reason else "")


class CgroupLimits(NamedTuple):
    """Limits of the jobs of one host: whole CPUs and bytes of memory, 0: no limit."""

    cpus: int = 0
    memory: int = 0


def find_parents(root: Path = _ROOT, platform: str = sys.platform) -> ParentGroups:
    """Find out where groups can be made, by looking only. ``root`` is where ``proc`` and ``sys`` are found."""
    if platform != "linux":
        return ParentGroups(reason="only Linux has control groups")
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError as error:
        return ParentGroups(reason=f"this system has no control groups ({error.strerror})")
    mount = root / "sys/fs/cgroup"
    rows = [line.split(":", 2) for line in lines if line.count(":") > 1]
    if (mount / "cgroup.controllers").exists():
        own = next((path for number, names, path in rows if number == "0" and not names), "/")
        return _find_2(mount, own)
    return _find_1(mount, {name: (names, path) for _, names, path in rows for name in names.split(",")})


def _find_1(mount: Path, rows: dict[str, tuple[str, str]]) -> ParentGroups:
    folders, missing = {}, []
    for kind in CONTROLLERS:
        names, path = rows.get(kind, ("", "/"))
        top = next((top for top in (mount / names, mount / kind) if names and top.is_dir()), None)
        own = _own_group(top, path) if top else None
        if own is not None and os.access(own, os.W_OK):
            folders[kind] = own
        else:
            missing.append(f"{own} is not writable for this user" if own else f"there is no controller {kind}")
    return ParentGroups(version=1, folders=folders, reason="; ".join(missing))


def _find_2(mount: Path, path: str) -> ParentGroups:
    own = _own_group(mount, path)
    # Limits of a group hold below it only: beside it they would be escaped, unless there are none.
    limit = _limit_file(own) if own != mount else ""
    beside = [] if own == mount or limit else [own.parent]
    folders = {}
    for kind in CONTROLLERS:
        able = [folder for folder in (own, *beside) if kind in _read_fields(folder / _SUBTREE_CONTROL)]
        able += [folder for folder in beside if _can_delegate(folder, own, kind)]
        found = next((folder for folder in able if _can_divide(folder)), None)
        if found is not None:
            folders[kind] = found
    missing = " or ".join(kind for kind in CONTROLLERS if kind not in folders)
    reason = ""
    if missing and limit:
        reason = f"{own} has a limit in {limit}, which jobs outside it would escape, and it does not delegate {missing}"
    elif missing:
        reason = f"{own} and its parent do not delegate {missing}"
    reason += " to this user" if missing else ""
    return ParentGroups(version=2, folders=folders, reason=reason)


def _can_delegate(above: Path, own: Path, kind: str) -> bool:
    """Return True if the group above is a delegated unit of systemd (``Delegate=``, ``DelegateSubgroup=``).

    Only in delegated services or scopes may other programs make groups; systemd then leaves those alone.
    """
    is_given = above.name.endswith(_UNITS) and not own.name.endswith(_ANY_UNITS)
    is_empty = not _read_fields(above / "cgroup.procs")  # else the kernel lets it hand nothing on
    return (
        is_given
        and is_empty
        and kind in _read_fields(above / "cgroup.controllers")
        and os.access(above / _SUBTREE_CONTROL, os.W_OK)
    )


def _can_divide(folder: Path) -> bool:
    """Return True if groups can be created in a group, and this user's processes moved into them."""
    return all(os.access(path, os.W_OK) for path in (folder, folder / "cgroup.procs"))


def _own_group(top: Path, path: str) -> Path:
    """Return the own group's folder; in a container the path may be missing, and the root is the own group."""
    own = top.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
    return own if own.is_dir() else top


def _limit_file(folder: Path) -> str:
    """Return the file that limits a group, "" if none does."""
    return next((name for name in _LIMITS if _read_fields(folder / name)[:1] not in ([], ["max"])), "")


def _read_fields(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def group_name(data_dir: str, cluster: str, host: str) -> str:
    """Name the group of a host; no other data folder has that name."""
    return f"{_prefix(data_dir)}{cluster}-{host}"


def _prefix(data_dir: str) -> str:
    return f"{_PREFIX}-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:10]}-"


def plan_limits(parents: ParentGroups, name: str, wish: CgroupLimits) -> dict[str, object]:
    """Return the limits of a host for ``host.json``; pure."""
    wanted = {"cpu": wish.cpus, "memory": wish.memory}
    groups = {kind: os.fspath(folder / name) for kind, folder in parents.folders.items() if wanted[kind]}
    return {"cpus": wish.cpus, "memory": wish.memory, "groups": groups, "reason": parents.reason}


def make_groups(parents: ParentGroups, name: str, wish: CgroupLimits) -> ParentGroups:
    """Create the groups of a host; return the parents without those that refused, with reasons. Blocks for a moment."""
    kept, reasons = dict(parents.folders), [parents.reason] if parents.reason else []
    for kind, parent in parents.folders.items():
        wanted = wish.cpus if kind == "cpu" else wish.memory
        if not wanted:
            continue
        folder = parent / name
        try:
            _enable_controller(parents, kind)
            folder.mkdir(exist_ok=True)
            for file, value in _rules(folder, kind, wanted, parents.version):
                (folder / file).write_text(value)
        except OSError as error:
            del kept[kind]
            reasons.append(f"{error.filename or folder}: {error.strerror}")
    # One folder may be that of both, and is kept while one of them holds.
    used = {os.fspath(folder / name) for folder in kept.values()}
    remove_groups({os.fspath(folder / name) for folder in parents.folders.values()} - used)
    return parents._replace(folders=kept, reason="; ".join(reasons))


def _enable_controller(parents: ParentGroups, kind: str) -> None:
    handed_on = parents.folders[kind] / _SUBTREE_CONTROL
    if parents.version == 2 and kind not in _read_fields(handed_on):  # noqa: PLR2004 - of control groups
        handed_on.write_text(f"+{kind}")


def _rules(folder: Path, kind: str, wanted: int, version: int) -> list[tuple[str, str]]:
    if kind == "cpu":
        quota = wanted * _PERIOD
        if version == 2:  # noqa: PLR2004 - of control groups
            return [("cpu.max", f"{quota} {_PERIOD}")]
        return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]
    if version == 2:  # noqa: PLR2004
        rules = [("memory.max", str(wanted)), ("memory.swap.max", "0")]
    else:
        rules = [("memory.limit_in_bytes", str(wanted)), ("memory.memsw.limit_in_bytes", str(wanted))]
    # A kernel that does not count swap has no file for it.
    return [rule for rule in rules if rule == rules[0] or (folder / rule[0]).exists()]


def find_members(folders: Iterable[str]) -> set[int]:
    """Return the processes in groups and in the subgroups that jobs made; none if a group is gone."""
    found = set()
    for folder in dict.fromkeys(folders):
        for below, _, files in os.walk(folder):
            if "cgroup.procs" in files:
                found |= {int(pid) for pid in _read_fields(Path(below) / "cgroup.procs")}
    return found


def remove_groups(folders: Iterable[str]) -> str:
    """Remove groups whose processes have exited; return those that remain. Blocks for a second at most."""
    end = time.monotonic() + _PATIENCE
    left = []
    for folder in dict.fromkeys(folders):
        while (problem := _remove(folder)) == errno.EBUSY and time.monotonic() < end:
            time.sleep(_PAUSE)
        if problem:
            left.append(f"{folder} ({os.strerror(problem)})")
    return f"control groups could not be removed: {', '.join(left)}" if left else ""


def _remove(folder: str) -> int:
    try:
        Path(folder).rmdir()
    except FileNotFoundError:
        return 0
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def sweep(parents: ParentGroups, data_dir: str, living: Callable[[], Iterable[str]]) -> None:
    """Remove the empty groups of this data folder whose hosts are not in ``living``.

    If a user deleted the folders of hosts, nothing else would find their groups.
    """
    found = [folder for parent in set(parents.folders.values()) for folder in parent.glob(f"{_prefix(data_dir)}*")]
    # Asked after the look: a host makes its folder before its group.
    kept = set(living()) if found else set()
    for folder in found:
        if folder.name not in kept:
            _remove(os.fspath(folder))
