"""Program ``uv`` of a job: runs uv so that it sees the packages of the job's Python, which it would not search.

uv reads only the environment's own folder of packages. While it runs, that folder shows the metadata of the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import List

from jupyter_smx.agent.code import environment_build

_ELSEWHERE = ("--python", "-p", "--target", "-t", "--prefix")
_ENDINGS = ("site-packages", "dist-packages")


def main(words: List[str]) -> int:
    """Run uv, whose path is the first word, with the others; return its exit code. This Python is the environment's.

    :raises OSError: uv was removed, or the disk is full.
    """
    if not _uses_environment(words[1:]):
        os.execv(words[0], words)  # noqa: S606 - the user's program
    own = Path(sysconfig.get_path("purelib"))
    others = [Path(entry) for entry in sys.path if entry.rstrip("/").endswith(_ENDINGS) and Path(entry) != own]
    # It counts also beside --system, by which uv would choose a Python that is in no environment.
    os.environ.setdefault("UV_PYTHON", sys.executable)
    stubs = environment_build.write_stub_metadata(own, others)
    try:
        return subprocess.call(words)
    finally:
        for stub in stubs:
            environment_build.remove_stub(stub)


def _uses_environment(words: List[str]) -> bool:
    """Return True if uv manages packages of the environment, and of no other one."""
    command = next((word for word in words if not word.startswith("-")), "")
    return command == "pip" and not any(word.partition("=")[0] in _ELSEWHERE for word in words)
