"""An interpreter with PyTorch and gRPC, in an environment that is made once for each checkout: the wheel is large."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "2.13.0"
_FOLDER = Path(__file__).parents[2] / "build" / f"torch-{VERSION}-grpc"


def interpreter() -> str:
    """Give its path; skip, saying why, where nothing can be installed, but never on the machine that decides."""
    python = _FOLDER / "bin" / "python"
    _FOLDER.parent.mkdir(exist_ok=True)
    with _FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_FOLDER / "ready").exists():
            steps = (
                [sys.executable, "-m", "venv", "--clear", os.fspath(_FOLDER)],
                [os.fspath(python), "-m", "pip", "install", "-q", f"torch=={VERSION}", "numpy", "grpcio"],
            )
            for step in steps:
                done = subprocess.run(step, capture_output=True, text=True, check=False)
                if done.returncode:
                    said = f"PyTorch {VERSION} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
                    (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
            (_FOLDER / "ready").touch()
    return os.fspath(python)
