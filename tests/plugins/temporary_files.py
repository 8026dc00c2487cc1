"""Temporary files of a run: they are in a folder that ends with the run; a run that leaves others elsewhere fails.

The folder is TMPDIR for the workers and all that they start. A run fails only if ``FAIL_VARIABLE`` is set, as CI does,
and no other run was active: of parallel runs each sees the files of the others. Files that a process names are of
another program. Nor does a run fail with reruns of tests: a worker that was killed removes nothing. Controllers and
agents that a test kills leave their sockets in folders in ``/tmp`` and links to their hosts; those are removed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FAIL_VARIABLE = "FAIL_ON_TEMPORARY_FILES"
_PLACES = tuple(Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"))  # noqa: S108 - only looked at
_PREFIXES = ("smx-", "jupyter-smx-", "chaos-", "spark-local-", "toy-gateway-")
_MOUNTS = Path("/proc/self/mounts")
_PROC = Path("/proc")
_OWN = "smx-t-"
_SOCKETS = Path("/proc/net/unix")
_ACTIVE = "@smx-test-run-"
"""How the abstract address of a run begins, which the system frees at the run's end however it comes."""
_SOCKET_FOLDER = re.compile(r"smx-[0-9a-f]{8}")
_SOCKET = "s"
"""Name of the only file in such a folder."""
_UNUSED_SECONDS = 120.0
"""Seconds since the last change of a folder after which no test makes a socket in it."""


class Run(NamedTuple):
    """What was there when a run began: its own folder, paths of this project, and if another run was active."""

    folder: Path
    before: frozenset[str]
    had_others: bool


_RUN = pytest.StashKey[Run]()
AT_END: list[Callable[[], object]] = []
"""What helpers of tests do at the end of their process's session, before anything is reported as left."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, except in workers, which inherit its name."""
    if hasattr(config, "workerinput"):
        return
    # pytest keeps the folders of the last runs, to be inspected after a failure.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=_OWN))
    had_others = has_active_runs()
    announcement = socket.socket(socket.AF_UNIX)
    config.add_cleanup(announcement.close)
    if _SOCKETS.exists():
        announcement.bind(_address(folder).replace("@", "\0", 1))
    config.stash[_RUN] = Run(folder, frozenset(find_ours()), had_others)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    config.add_cleanup(lambda: _remove(folder))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Report what remains outside of the folder."""
    yield
    while AT_END:
        AT_END.pop()()
    config = session.config
    run = config.stash.get(_RUN, None)
    if run is None:
        return
    is_alone = not run.had_others and not has_active_runs(_address(run.folder))
    base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    left = sorted(find_left(find_ours() - run.before, (base, run.folder), _UNUSED_SECONDS * (not is_alone)))
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.ensure_newline()
        others = "" if is_alone else ", or another run that was active"
        reporter.write_line(f"== temporary files left by this run{others}: {', '.join(left)}", red=True)
        fails = is_alone and os.environ.get(FAIL_VARIABLE) and not reporter.stats.get("rerun")
        if fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def find_ours() -> set[str]:
    """Return the paths of what this project made in folders that all programs share."""
    return {str(path) for place in _PLACES for path in _entries(place) if path.name.startswith(_PREFIXES)}


def find_left(paths: set[str], folders: Sequence[Path], unused_seconds: float) -> list[str]:
    """Return what nothing uses, and remove links into ``folders`` and folders of sockets without a process.

    ``unused_seconds`` is how long a folder of a socket is unchanged before it counts as unused.
    """
    rest = [path for path in map(Path, paths) if not _is_removed(path, folders, unused_seconds)]
    named = "\0".join(_process_texts())
    return [str(path) for path in rest if not (_may_be_in_use(path, unused_seconds) or str(path) in named)]


def has_active_runs(own: str = "") -> bool:
    """Return True if another run than the one with the address ``own`` is active."""
    text = _SOCKETS.read_text(encoding="utf-8", errors="replace") if _SOCKETS.exists() else ""
    return any(word.startswith(_ACTIVE) and word != own for word in text.split())


def _address(folder: Path) -> str:
    return f"{_ACTIVE}{os.getpid()}-{folder.name}"


def _process_texts() -> Iterator[str]:
    """Yield command lines, environments and working folders of all processes but this one, as far as they are seen."""
    for entry in _entries(_PROC):
        if entry.name.isdecimal() and entry.name != str(os.getpid()):
            for name in ("cmdline", "environ"):
                with suppress(OSError):
                    yield (entry / name).read_bytes().decode(errors="replace")
            with suppress(OSError):
                yield str((entry / "cwd").readlink())


def _is_removed(path: Path, folders: Sequence[Path], unused_seconds: float) -> bool:
    """Remove a link to a host of a test, or to one that is gone, or a folder whose socket has no process."""
    with suppress(OSError):
        if path.is_symlink() and (
            any(path.readlink().is_relative_to(folder) for folder in folders)
            or (not unused_seconds and _SOCKET_FOLDER.fullmatch(path.name) and not path.exists())
        ):
            path.unlink()
            return True
        if _SOCKET_FOLDER.fullmatch(path.name) and not path.is_symlink() and _is_unused(path, unused_seconds):
            (path / _SOCKET).unlink(missing_ok=True)
            path.rmdir()
            return True
    return False


def _may_be_in_use(path: Path, unused_seconds: float) -> bool:
    """Return True for the folder of another run, a link to its host, and a socket's folder that was just used."""
    if path.name.startswith(_OWN) or path.is_symlink():
        return True
    with suppress(OSError):
        is_new = time.time() - path.stat().st_mtime <= unused_seconds
        return _SOCKET_FOLDER.fullmatch(path.name) is not None and (is_new or _listens(path / _SOCKET))
    return True  # it is gone


def _is_unused(folder: Path, unused_seconds: float) -> bool:
    is_old = time.time() - folder.stat().st_mtime >= unused_seconds
    return is_old and not {path.name for path in folder.iterdir()} - {_SOCKET} and not _listens(folder / _SOCKET)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True


def _remove(folder: Path) -> None:
    if not is_mounted_below(folder, _MOUNTS.read_text(encoding="utf-8") if _MOUNTS.exists() else ""):
        shutil.rmtree(folder, ignore_errors=True)


def is_mounted_below(folder: Path, mounts: str) -> bool:
    """Return True if a file system is mounted in the folder, which removing would empty. Pure.

    ``mounts`` is the text of ``/proc/self/mounts``.
    """
    points = (line.split()[1] for line in mounts.splitlines() if line)
    return any(Path(point).is_relative_to(folder) for point in points)


def _entries(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []
