"""Look at an installation of the wheel: extensions that Jupyter finds, and the modules that ship.

``make release-check`` runs it with the folder of the virtual environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKS = {
    ("jupyter", "labextension", "list"): r"jupyter-smx v[\d.]+.*enabled.*OK",
    ("jupyter", "server", "extension", "list"): r"jupyter_smx [\d.]+.*OK",
    ("jupyter-smx", "--version"): r"jupyter smx [\d.]+",
    (
        "python",
        "-c",
        "import jupyter_smx.testing.contract, jupyter_smx.testing.local_harness; print('contract')",
    ): "contract",
    ("python", "-c", "import jupyter_smx as smx; print(smx.train.__doc__)"): ":param keep_alive:",
}
ABSENT = ("testing/docker", "testing/simulation", "testing/servers")
PRESENT = ("py.typed", "testing/contract.py", "testing/pytest_plugin.py", "testing/groups/warm_start.py")


def main(folder: Path) -> int:
    """Run the checks in a virtual environment; return 1 if one fails."""
    failures = [text for command, pattern in CHECKS.items() if (text := _failure(folder, command, pattern))]
    packages = next((folder / "lib").glob("python*/site-packages/jupyter_smx"))
    failures += [f"{name} is in the wheel." for name in ABSENT if (packages / name).exists()]
    failures += [f"{name} is not in the wheel." for name in PRESENT if not (packages / name).exists()]
    scripts = folder / "share/jupyter/labextensions/jupyter-smx/static"
    failures += [f"{path.name} is of a development build." for path in sorted(scripts.glob("*.map"))]
    print("\n".join(failures) or "The wheel is complete.")  # noqa: T201 - a person reads it
    return bool(failures)


def _failure(folder: Path, command: tuple[str, ...], pattern: str) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "PYTHON"))}
    bin_folder = (folder / "bin").resolve()
    result = subprocess.run(
        [str(bin_folder / command[0]), *command[1:]],
        env=variables | {"PATH": f"{bin_folder}:{variables['PATH']}"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
    return "" if re.search(pattern, output) else f"{' '.join(command)}: no {pattern!r} in:\n{output}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
