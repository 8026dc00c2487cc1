"""Install this package beside the machine's own PyTorch, from a folder of wheels and without a network.

Only Python's own library is imported: nothing is installed yet.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

COMMIT = "COMMIT"
"""Name of the file beside the wheels that says of which commit they are."""
_DISTRIBUTION = "jupyter-smx"


def make(folder: Path, wheels: Path) -> Path:
    """Make a virtual environment that sees this Python's packages, install the wheels, and give its Python.

    What this Python has already is not installed again.

    :raises subprocess.CalledProcessError: pip fails; it prints why.
    """
    venv.EnvBuilder(system_site_packages=True, symlinks=True, clear=True).create(folder)
    python = folder / "bin" / "python"
    if sys.prefix != sys.base_prefix:
        # A virtual environment made by another one's Python sees the packages of neither.
        _add_path(folder, {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    source = ["--no-index", f"--find-links={wheels}", "--no-cache-dir"]
    words = [sys.executable, "-m", "pip", f"--python={python}", "install", *quiet, *source, _DISTRIBUTION]
    subprocess.run(words, check=True)
    return python


def _add_path(folder: Path, others: set[str]) -> None:
    scheme = {"base": str(folder), "platbase": str(folder)}
    own = Path(sysconfig.get_path("purelib", scheme="venv", vars=scheme))
    (own / "machine.pth").write_text("".join(f"{other}\n" for other in sorted(others)), encoding="utf-8")


def commit_of(wheels: Path) -> str:
    """Give the commit that the wheels were built from, '' where they do not say."""
    path = wheels / COMMIT
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""
