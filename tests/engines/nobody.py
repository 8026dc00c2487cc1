"""Runs Python as a user without any right, for tests that run as root."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import jupyter_smx

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
PATHS = (Path(jupyter_smx.__file__).parents[1], Path(msgspec.__file__).parents[1])


def _run(python: str, code: str, *arguments: str, home: str = "/") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", code, *arguments],
        cwd=home,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={**os.environ, "HOME": home, "TMPDIR": home, "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@functools.cache
def interpreter() -> str:
    """Give a Python of this version that the user may start, empty when there is none."""
    if os.getuid() != 0:
        return ""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}")
    return next((python for python in candidates if _works(python)), "")


def _works(python: str) -> bool:
    try:
        return _run(python, "import msgspec, traitlets, psutil, jupyter_core, pytest").returncode == 0
    except OSError:
        return False


def run(code: str, *arguments: str, home: str = "/") -> str:
    """Run ``code`` as that user and give what it printed."""
    answer = _run(interpreter(), code, *arguments, home=home)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@contextmanager
def home() -> Iterator[Path]:
    """Give a folder that belongs to the user; pytest's own are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="smx-nobody-"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)
