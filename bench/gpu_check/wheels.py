"""Build this package's wheel and fetch those that it needs, for a machine that has no network: needs one itself.

    python -m bench.gpu_check.wheels [--python-version 3.12] [--folder build/gpu-wheels]

JupyterLab's side is left out: no job needs it, and Node is not needed to build it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.gpu_check.environment import COMMIT

ROOT = Path(__file__).parents[2]
MOST_BYTES = 60_000_000
_GLIBC = (17, 24, 27, 28, 31, 34)
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64")
"""What pip matches exactly: a machine takes wheels for its own version of glibc and for all older ones."""
_STUBS = ("package.json", "static/style.js")
"""Files of JupyterLab's side whose presence lets the build pass it over."""


def main() -> int:
    """Fill the folder; fail where it is larger than what may travel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-version", default="3.12")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gpu-wheels")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    wheel = build(options.folder)
    fetch(wheel, options.folder, options.python_version)
    (options.folder / COMMIT).write_text(commit() + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in options.folder.iterdir())
    print(f"{options.folder} has {len(list(options.folder.glob('*.whl')))} wheels, {size / 1e6:.1f} MB.")
    if size > MOST_BYTES:
        print(f"That is more than {MOST_BYTES / 1e6:.0f} MB, which is what may travel.")
    return int(size > MOST_BYTES)


def build(folder: Path) -> Path:
    """Build the wheel of the work tree, with what is not committed, in a copy: the checkout stays as it is."""
    with tempfile.TemporaryDirectory(prefix="smx-wheel-") as top:
        for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
            if name and (ROOT / name).is_file():
                target = Path(top, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        for name in _STUBS:
            target = Path(top, "jupyter_smx", "labextension", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("{}\n", encoding="utf-8")
        _pip("wheel", "--no-deps", f"--wheel-dir={folder}", top)
    return next(folder.glob("jupyter_smx-*.whl"))


def fetch(wheel: Path, folder: Path, python_version: str) -> None:
    """Fetch what the wheel needs, for that Python on x86-64."""
    platforms = [f"--platform={name}" for name in PLATFORMS]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python_version}", *platforms]
    _pip("download", *target, f"--dest={folder}", str(wheel))


def commit() -> str:
    """Give the commit of the work tree; ``+`` stands for changes that are not committed."""
    changed = bool(_git("status", "--porcelain").strip())
    return _git("rev-parse", "HEAD").strip() + ("+" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607 - by its name


def _pip(command: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", command, "-qq", "--disable-pip-version-check", *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
