"""Temporary files of a run: they are in a folder that ends with the run; a run that leaves others elsewhere fails.

The folder is TMPDIR for the workers and all that they start. A run fails only if ``FAIL_VARIABLE`` is set and no other
run is active: of parallel runs each sees the files of the others. Nor does it fail with reruns of tests: a worker
that was killed removes nothing. CI does not set it yet. Controllers and agents that a test kills leave their sockets in
folders in ``/tmp`` and links to their hosts; those are removed.
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
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FAIL_VARIABLE = "FAIL_ON_TEMPORARY_FILES"
_PLACES = tuple(Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"))  # noqa: S108 - only looked at
_PREFIXES = ("smx-", "jupyter-smx-", "chaos-", "spark-local-", "toy-gateway-")
_MOUNTS = Path("/proc/self/mounts")
_OWN = "smx-t-"
_SOCKET_FOLDER = re.compile(r"smx-[0-9a-f]{8}")
_SOCKET = "s"
"""Name of the only file in such a folder."""
_UNUSED_SECONDS = 120.0
"""Seconds since the last change of a folder after which no test makes a socket in it."""

_BEFORE = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, except in workers, which inherit its name."""
    if hasattr(config, "workerinput"):
        return
    # pytest keeps the folders of the last runs, to be inspected after a failure.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=_OWN))
    config.stash[_BEFORE] = find_ours()
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    config.add_cleanup(lambda: _remove(folder))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Report what remains outside of the folder."""
    yield
    config = session.config
    if _BEFORE not in config.stash:
        return
    new = find_ours() - config.stash[_BEFORE]
    base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    left = sorted(path for path in new if not (_is_removed(Path(path), base) or _may_be_in_use(Path(path))))
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"== temporary files left: {', '.join(left)}", red=True)
        fails = os.environ.get(FAIL_VARIABLE) and not reporter.stats.get("rerun")
        if fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def find_ours() -> set[str]:
    """Return the paths of what this project made in folders that all programs share."""
    return {str(path) for place in _PLACES for path in _entries(place) if path.name.startswith(_PREFIXES)}


def _is_removed(path: Path, base: Path) -> bool:
    """Remove a link that leads to a folder of a test below ``base``, or a folder whose socket has no process."""
    with suppress(OSError):
        if path.is_symlink() and path.readlink().is_relative_to(base):
            path.unlink()
            return True
        if _SOCKET_FOLDER.fullmatch(path.name) and not path.is_symlink() and _is_unused(path):
            (path / _SOCKET).unlink(missing_ok=True)
            path.rmdir()
            return True
    return False


def _may_be_in_use(path: Path) -> bool:
    """Return True for the folder of another run, a link to its host, and a socket's folder that was just used."""
    if path.name.startswith(_OWN) or path.is_symlink():
        return True
    with suppress(OSError):
        is_new = time.time() - path.stat().st_mtime <= _UNUSED_SECONDS
        return _SOCKET_FOLDER.fullmatch(path.name) is not None and (is_new or _listens(path / _SOCKET))
    return True  # it is gone


def _is_unused(folder: Path) -> bool:
    is_old = time.time() - folder.stat().st_mtime > _UNUSED_SECONDS
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
