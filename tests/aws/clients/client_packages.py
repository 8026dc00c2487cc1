"""Clients of AWS in folders for ``PYTHONPATH``, which are installed once for each checkout into ``build``."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SDK = ("sagemaker==2.257.7",)
OLD_BOTO3 = ("boto3==1.34.162",)
NEW_BOTO3 = ("boto3==1.44.8",)
CLI = ("awscli==1.46.3",)
_LIMIT = 240


def install(name: str, packages: tuple[str, ...]) -> Path:
    """Install packages into ``build/aws-<name>``, unless they are there, and return the folder. Blocks for a minute."""
    folder = ROOT / "build" / f"aws-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / "ready"
        if not mark.exists() or mark.read_text(encoding="utf-8") != "\n".join(packages):
            shutil.rmtree(folder / "packages", ignore_errors=True)
            _install(folder / "packages", packages)
            mark.write_text("\n".join(packages), encoding="utf-8")
    return folder / "packages"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--compile-bytecode"]
    command += ["--python", sys.executable, "--target", os.fspath(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
    if done.returncode == 0:
        return
    message = f"{' '.join(packages)} cannot be installed: {done.stderr.strip()[-600:]}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
