"""JupyterHub, its culler and its proxy, which are installed once for each checkout into ``build``.

The packages are in a folder for ``PYTHONPATH``, in the versions of this environment where both have them. So one
interpreter runs a single-user server with the checkout's own extension, and the environment itself stays as it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
HUB = "jupyterhub==6.1.1"
CULLER = "jupyterhub-idle-culler==2.0.0"
PROXY = "configurable-http-proxy@5.3.0"
_FOLDER = ROOT / "build" / "-".join(["hub", *(name.replace("==", "-").replace("@", "-") for name in (HUB, PROXY))])
_LIMIT = 240


class HubPackages(NamedTuple):
    """What a hub is started from."""

    python_path: str
    """Folders of ``PYTHONPATH``: the checkout, and the packages of the hub."""
    proxy: tuple[str, ...]
    """The command of ``configurable-http-proxy``."""
    folders: tuple[Path, ...]
    """Folders that the hub and its users must be able to read, wherever they are."""


def skip_or_fail(message: str) -> None:
    """End the test: in CI it fails, since every program must be there."""
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def hub_packages() -> HubPackages:
    """Install what is missing and return it. Blocks for a minute the first time."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        skip_or_fail("The hub's proxy needs node and npm on PATH.")
        raise AssertionError
    packages, proxy = _FOLDER / "packages", _FOLDER / "proxy"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_FOLDER / "ready").exists():
            _install(packages, proxy, npm)
            (_FOLDER / "ready").touch()
    program = proxy / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
    python_path = os.pathsep.join([os.fspath(ROOT), os.fspath(packages)])
    python_folders = (Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    folders = (ROOT, *python_folders, Path(node).resolve().parents[1])
    return HubPackages(python_path, (node, os.fspath(program)), folders)


def _install(packages: Path, proxy: Path, npm: str) -> None:
    for folder in (packages, proxy):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    uv = [sys.executable, "-m", "uv", "pip"]
    constraints = _FOLDER / "constraints.txt"
    constraints.write_text(_run(*uv, "freeze", "--exclude-editable", "--python", sys.executable), encoding="utf-8")
    options = ["-q", "--compile-bytecode", "--python", sys.executable, "--target", os.fspath(packages), "--constraints"]
    _run(*uv, "install", *options, os.fspath(constraints), HUB, CULLER)
    _run(npm, "install", "--prefix", os.fspath(proxy), "--no-audit", "--no-fund", PROXY)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
    if done.returncode:
        skip_or_fail(f"{' '.join(command[:6])} … failed: {done.stderr.strip()[-600:]}")
    return done.stdout
