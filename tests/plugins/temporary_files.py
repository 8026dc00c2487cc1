"""Temporary files of a run: they have a folder that ends with the run, and a run that leaves others elsewhere fails.

The folder is TMPDIR for the workers and all that they start. Runs beside each other would blame each other, so only CI
fails. A run with second chances does not fail: a worker that was ended removes nothing. Controllers and agents that a
test kills leave the empty folders of their sockets and links to their hosts; those are removed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACES = tuple(Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"))  # noqa: S108 - only looked at
_PREFIXES = ("smx-", "jupyter-smx-", "chaos-", "spark-local-", "toy-gateway-")
_MOUNTS = Path("/proc/self/mounts")

_BEFORE = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, but for workers, who inherit its name."""
    if hasattr(config, "workerinput"):
        return
    # pytest keeps the folders of the last runs, which is what one looks into after a failure.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="smx-t-"))
    config.stash[_BEFORE] = find_ours()
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    config.add_cleanup(lambda: _remove(folder))


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say what is left outside of the folder."""
    yield
    config = session.config
    if _BEFORE not in config.stash:
        return
    new = find_ours() - config.stash[_BEFORE]
    base = Path(os.environ["PYTEST_DEBUG_TEMPROOT"])
    left = sorted(path for path in new if not _is_removed(Path(path), base))
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"== temporary files left: {', '.join(left)}", red=True)
        fails = os.environ.get("CI") and not reporter.stats.get("rerun")
        if fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def find_ours() -> set[str]:
    """Return the paths of what this project made in folders that all programs share."""
    return {str(path) for place in _PLACES for path in _entries(place) if path.name.startswith(_PREFIXES)}


def _is_removed(path: Path, base: Path) -> bool:
    """Remove an empty folder, or a link that leads to a folder of a test below ``base``."""
    with suppress(OSError):
        if not path.is_symlink():
            path.rmdir()
            return True
        if path.readlink().is_relative_to(base):
            path.unlink()
            return True
    return False


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
