"""Upload outputs to URLs in a child process with fsspec, so that the controller loads no store library."""

from __future__ import annotations

import json
import os
import sys
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.stores import filesystems
from jupyter_smx.agent.stores.worker_environment import worker_environment
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.engines.machine import child_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FSSPEC_WORKER = (sys.executable, "-m", "jupyter_smx.agent", "courier")


async def upload(pairs: Sequence[tuple[Path, str]], environment: Mapping[str, str], kept: Path) -> None:
    """Upload files to URLs, with a job's own variables for credentials; safe to repeat.

    It has no time limit and uses no thread. Cancelling it ends it.

    :raises StagingError: a file cannot be uploaded; ``kept`` is where all of them are.
    """
    if not pairs:
        return
    wish = {"do": "put", "source": pairs[0][1], "pairs": [[str(path), url] for path, url in pairs]}
    answer = await _run_worker(wish, environment)
    if "result" in answer:
        return
    lacks = answer.get("lacks")
    said = f"writing to {pairs[0][1]} needs fsspec; {sys.executable} lacks {lacks}." if lacks else str(answer["error"])
    install = f"Run pip install {filesystems.required_packages(pairs[0][1])} in that environment. " if lacks else ""
    raise StagingError(
        f"--output: {said}",
        field="output",
        value=pairs[0][1],
        cure=f"{install}The files are in {kept}.",
    )


async def _run_worker(wish: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    environment = worker_environment(os.environ, given, is_ours=True, is_the_jobs=False)
    try:
        child = await child_process.start(*FSSPEC_WORKER, stdin=PIPE, stdout=PIPE, env=environment)
    except OSError as error:
        return {"error": f"the upload process {FSSPEC_WORKER[0]} cannot be started ({error.strerror})."}
    try:
        said, _ = await child.communicate(json.dumps(wish).encode() + b"\n")
    finally:
        await child_process.end(child)
    try:
        return dict(json.loads(said))
    except ValueError:  # nothing, or a part of it
        return {"error": f"it exited with code {child.returncode}"}
