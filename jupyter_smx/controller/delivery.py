"""Brings outputs to URLs: by a child process with fsspec, so that no library for a store runs in the controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from jupyter_smx.controller.job_folder import StagingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COURIER = (sys.executable, "-m", "jupyter_smx.agent", "courier")
INSTALL = "pip install 'jupyter-smx[storage]'"


def is_url(destination: str) -> bool:
    """Say whether a destination is no folder of this machine."""
    return "://" in destination


def deliver(pairs: Sequence[tuple[Path, str]], environment: Mapping[str, str], kept: Path) -> None:
    """Put files at URLs, with a job's own variables for credentials; safe to do again. Blocks.

    :raises StagingError: one cannot be put there; ``kept`` is where all of them are.
    """
    if not pairs:
        return
    wish = {"do": "put", "source": pairs[0][1], "pairs": [[str(path), url] for path, url in pairs]}
    done = subprocess.run(
        COURIER,
        input=json.dumps(wish) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": f"it ended with {done.returncode}"}
    if "result" in answer:
        return
    lacks = answer.get("lacks")
    said = f"{pairs[0][1]} is written by fsspec, and {sys.executable} lacks {lacks}." if lacks else str(answer["error"])
    raise StagingError(
        f"--output: {said}",
        field="output",
        value=pairs[0][1],
        cure=f"{f'{INSTALL} there. ' if lacks else ''}The files are in {kept}.",
    )
