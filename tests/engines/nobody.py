"""Runs Python as a user without any rights, for tests that run as root."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import jupyter_smx
from plugins import temporary_files

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
PATHS = (Path(jupyter_smx.__file__).parents[1], Path(msgspec.__file__).parents[1])


_SHOW = """
while [ "$1" != -- ]; do mount --bind "$1" "$2" && shift 2 || exit 125; done; shift
exec setpriv --reuid="$SMX_NOBODY" --regid="$SMX_NOBODY" --clear-groups -- "$@"
"""


def _run(python: str, code: str, *arguments: str, home: str = "/") -> subprocess.CompletedProcess[str]:
    found = [os.fspath(_seen(path)) for path in PATHS]
    environment = {**os.environ, "HOME": home, "TMPDIR": home, "PYTHONPATH": os.pathsep.join(found)}
    words = [python, "-c", code, *arguments]
    if found == [*map(os.fspath, PATHS)]:
        how: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    else:
        pairs = [word for path, seen in zip(PATHS, found, strict=True) for word in (os.fspath(path), seen)]
        words = ["unshare", "--mount", "sh", "-c", _SHOW, "sh", *pairs, "--", *words]
        how, environment = {}, {**environment, "SMX_NOBODY": str(NOBODY)}
    return subprocess.run(
        words, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=90, **how
    )


@functools.cache
def _seen(path: Path) -> Path:
    """Return the path of a folder for the user: its own path, or a mount point if a folder above it is closed."""
    if all(one.stat().st_mode & 0o001 for one in (path, *path.parents)):
        return path
    shown = Path(tempfile.mkdtemp(prefix="smx-shown-", dir="/run"))
    shown.chmod(0o755)
    temporary_files.AT_END.append(shown.rmdir)
    return shown


@functools.cache
def interpreter() -> str:
    """Return a Python of this version that the user may start; empty if there is none."""
    if os.getuid() != 0:
        return ""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}")
    return next((python for python in candidates if _works(python)), "")


_TRY = (
    "import os, sys, msgspec, traitlets, psutil, jupyter_core, pytest; sys.exit(not os.access(sys.executable, os.X_OK))"
)


def _works(python: str) -> bool:
    # A Python in a closed folder may start here, while the process is still root, and then cannot start itself again.
    try:
        return _run(python, _TRY).returncode == 0
    except OSError:
        return False


def run(code: str, *arguments: str, home: str = "/") -> str:
    """Run ``code`` as that user and return what it printed."""
    answer = _run(interpreter(), code, *arguments, home=home)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@contextmanager
def home() -> Iterator[Path]:
    """Provide a folder that belongs to the user; pytest's own are closed to it, and so may be that of TMPDIR."""
    folder = Path(tempfile.mkdtemp(prefix="smx-nobody-", dir="/tmp"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)
