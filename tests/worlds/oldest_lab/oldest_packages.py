"""The oldest JupyterLab and Notebook that this extension supports, and their types, installed once into ``build``.

The environment has the wheel of this checkout, which each session builds again. npm installs the types in the
versions that this JupyterLab itself was built with, so no file lists them a second time.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[3]
LAB = "jupyterlab==4.2.0"
NOTEBOOK = "notebook==7.2.0"
_FOLDER = ROOT / "build" / "-".join(name.replace("==", "-") for name in (LAB, NOTEBOOK))
_BUILT = ROOT / "jupyter_smx" / "labextension"
_SCOPES = ("@jupyter/", "@jupyterlab/", "@lumino/", "@rjsf/")
_SINGLE = ("react", "react-dom", "yjs")
"""Packages besides those scopes whose versions are JupyterLab's, too."""
_TOOLS = ("@types/json-schema", "@types/react", "typescript")
"""Packages of ``devDependencies`` that a compilation needs."""
_LOCK_ENTRY = re.compile(r'^"?(?P<name>(?:@[^@"/\s]+/)?[^@"\s]+)@[^\n]*:\n  version: (?P<version>\S+)', re.MULTILINE)
_LIMIT = 600
TSCONFIG = "tsconfig.json"


class OldestLab(NamedTuple):
    """An environment with the oldest JupyterLab."""

    folder: Path

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return os.fspath(self.folder / "bin" / "python")

    def run(self, *words: str) -> str:
        """Run a program of the environment and return what it prints, without colours.

        :raises AssertionError: it fails; the text has its output.
        """
        foreign = ("JUPYTER", "JPY_", "PYTHON")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        # Whatever is configured on this machine is for none of these programs.
        variables |= {
            f"JUPYTER_{kind}_DIR": os.fspath(self.folder / "own" / kind.lower()) for kind in ("CONFIG", "DATA")
        }
        bin_folder = self.folder / "bin"
        done = subprocess.run(
            [os.fspath(bin_folder / words[0]), *words[1:]],
            env=variables | {"PATH": f"{bin_folder}{os.pathsep}{variables['PATH']}"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )
        output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{output}"
        return output


def skip_or_fail(message: str) -> None:
    """End the test: in CI it fails, since everything must be there."""
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def oldest_lab() -> OldestLab:
    """Install JupyterLab, Notebook and this checkout's wheel. Blocks for a minute the first time."""
    if not (_BUILT / "static" / "style.js").exists():
        skip_or_fail("The JupyterLab side is not built: make build.")
    lab = OldestLab(_FOLDER / "environment")
    with _lock():
        if not (_FOLDER / "lab-ready").exists():
            shutil.rmtree(lab.folder, ignore_errors=True)
            _uv("venv", "-q", "--python", sys.executable, os.fspath(lab.folder))
            _uv("pip", "install", "-q", "--python", lab.python, LAB, NOTEBOOK)
            (_FOLDER / "lab-ready").touch()
        wheels = _FOLDER / "wheel"
        shutil.rmtree(wheels, ignore_errors=True)
        # What is built already is taken as it is.
        _uv("build", "-q", "--wheel", "--out-dir", os.fspath(wheels), os.fspath(ROOT))
        (wheel,) = wheels.glob("*.whl")
        words = ("pip", "install", "-q", "--python", lab.python, "--reinstall-package", "jupyter-smx")
        # Of all packages: under PYTHONDONTWRITEBYTECODE each server of a test would compile JupyterLab.
        _uv(*words, "--compile-bytecode", os.fspath(wheel), LAB, NOTEBOOK)
        # Each page would ask whether JupyterLab must be built, for which the server starts node twice.
        page_config = lab.folder / "etc" / "jupyter" / "labconfig" / "page_config.json"
        page_config.parent.mkdir(parents=True, exist_ok=True)
        page_config.write_text('{"buildCheck": false}', encoding="utf-8")
    return lab


def oldest_types(lab: OldestLab) -> Path:
    """Install the packages that JupyterLab was built with and return the folder. Blocks for a minute the first time."""
    npm = shutil.which("npm")
    if npm is None:
        skip_or_fail("The types of the oldest JupyterLab need npm on PATH.")
        raise AssertionError
    folder = _FOLDER / "types"
    folder.mkdir(parents=True, exist_ok=True)
    (lock,) = lab.folder.glob("lib/python*/site-packages/jupyterlab/staging/yarn.lock")
    ours = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    wanted = json.dumps(npm_package(ours, versions_in_lock(lock.read_text(encoding="utf-8"))), indent=2)
    with _lock():
        package = folder / "package.json"
        is_there = (folder / "ready").exists() and package.read_text(encoding="utf-8") == wanted
        if not is_there:
            (folder / "ready").unlink(missing_ok=True)
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            (folder / "package-lock.json").unlink(missing_ok=True)
            package.write_text(wanted, encoding="utf-8")
            options = ("--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--loglevel", "error")
            _run(npm, "install", "--prefix", os.fspath(folder), *options)
            (folder / "ready").touch()
    (folder / TSCONFIG).write_text(json.dumps(tsconfig(folder), indent=2), encoding="utf-8")
    return folder


def versions_in_lock(lock: str) -> dict[str, str]:
    """Read the version of each package that must be JupyterLab's own from the text of its ``yarn.lock``."""
    found = {entry["name"]: entry["version"] for entry in _LOCK_ENTRY.finditer(lock)}
    return {name: version for name, version in found.items() if name.startswith(_SCOPES) or name in _SINGLE}


def npm_package(ours: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Make a ``package.json`` with what our code imports, in the minor versions of JupyterLab where it has them.

    Patch releases have the same types, and not every registry has all of them.
    """
    minor = {name: f"~{version}" for name, version in versions.items()}
    tools = {name: ours["devDependencies"][name] for name in _TOOLS}
    needed = {name: minor.get(name, wanted) for name, wanted in ours["dependencies"].items()}
    overrides = {name: version for name, version in minor.items() if name not in needed}
    return {"private": True, "dependencies": needed | tools, "overrides": overrides}


def tsconfig(folder: Path) -> dict[str, Any]:
    """Make the configuration of a compilation of ``src`` that looks for packages in ``folder`` first."""
    root = os.path.relpath(ROOT, folder)
    packages = ["./node_modules/*", "./node_modules/@types/*"]
    return {
        "extends": f"{root}/tsconfig.json",
        "compilerOptions": {
            "composite": False,
            "incremental": False,
            "noEmit": True,
            "paths": {"*": packages},
            "typeRoots": ["./node_modules/@types"],
            "types": [],
        },
        "include": [f"{root}/src/**/*"],
        "exclude": [f"{root}/src/**/__tests__/**"],
    }


@contextmanager
def _lock() -> Iterator[None]:
    """Let one process at a time install."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _uv(*words: str) -> str:
    return _run(sys.executable, "-m", "uv", *words)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT, cwd=ROOT)
    if done.returncode:
        skip_or_fail(f"{' '.join(command[:6])} … failed: {done.stderr.strip()[-600:]}")
    return done.stdout
