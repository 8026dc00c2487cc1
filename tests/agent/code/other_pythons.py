"""Interpreters of other versions on this machine, for tests of what an agent's Python may be."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path


@functools.cache
def pythons() -> list[str]:
    """Find one interpreter of each version that an agent may run on and that starts here."""
    # Those of pyenv first: its programs in PATH are scripts, which take a tenth of a second to refuse.
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("*/bin"))
    homes += [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep)]
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(8, 15):
        if (3, minor) in found:
            continue
        for home in homes:
            path = shutil.which(f"python3.{minor}", path=str(home))
            if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[3, minor] = path
                break
    return [found[version] for version in sorted(found)]
