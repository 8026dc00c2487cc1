"""The child process that builds an environment: start it, read its output, and end all its processes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from collections import deque
from typing import TYPE_CHECKING

from jupyter_smx.agent.code import environment_build
from jupyter_smx.controller_launch import controller_environment
from jupyter_smx.engines.machine import child_process
from jupyter_smx.model.errors import SmxError
from jupyter_smx.policy.lifecycle import pip_output
from jupyter_smx.policy.lifecycle.environment import format_for_pip, needs_pip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.model.spec.job_spec import PythonEnvironment

_TAIL_LINES = 80
"""Lines of the end, in which the reason of a failure stands."""


class BuildError(SmxError):
    """The requirements could not be installed."""

    code = "ClientError"
    status = 422


class Installer:
    """Makes environments with uv where it is found and pip otherwise; ``choice`` is ``auto``, or ``pip``."""

    def __init__(self, choice: str = "auto") -> None:
        self._choice = choice

    async def build(
        self, folder: Path, python: str, environment: PythonEnvironment, say: Callable[[str], None]
    ) -> None:
        """Make an environment over ``python`` in ``folder``; ``say`` gets each step in a few words.

        A cancelled call leaves no process.

        :raises BuildError: pip or uv failed; the text has its last lines, the package if known, and a cure.
        """
        uv = [] if self._choice == "pip" or needs_pip(environment.requirements) else _uv()
        lines = environment.requirements if uv else format_for_pip(environment.requirements)
        order = {"python": python, "requirements": lines, "only": environment.only, "uv": uv}
        child = await _start(folder)
        last, narrator = deque[str](maxlen=_TAIL_LINES), pip_output.InstallProgress()
        try:
            if child.stdin is not None:
                child.stdin.write(json.dumps(order).encode() + b"\n")
            if child.stdout is not None:
                async for line in child_process.read_lines(child.stdout):
                    last.append(line)
                    if step := narrator.read_line(line):
                        say(step)
            code = await child.wait()
        finally:
            await child_process.end(child, with_descendants=True)
        if code:
            raise _build_error(list(last), "uv" if uv else "pip", code, folder.name)


async def _start(folder: Path) -> asyncio.subprocess.Process:
    try:
        return await child_process.start(
            sys.executable,
            "-I",
            environment_build.__file__,
            os.fspath(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_environment(),
        )
    except OSError as error:
        raise BuildError(
            f"--requirements: the installer cannot be started ({error.strerror}).",
            field="requirements",
            value=sys.executable,
            cure="Check that this machine has free memory and process slots, then run the job again.",
        ) from error


def _uv() -> list[str]:
    found = shutil.which("uv")
    if found:
        return [found]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else []


def _environment() -> dict[str, str]:
    return environment_build.installer_variables(controller_environment(os.environ))


def _build_error(lines: list[str], installer: str, code: int, name: str) -> BuildError:
    reason, cure = pip_output.failure_reason(lines, f"{installer} ended with exit code {code}")
    return BuildError(
        f"--requirements: {reason}",
        field="requirements",
        cure=f"{cure} The full log is environments/{name}/{environment_build.LOG} in the data folder.",
    )
